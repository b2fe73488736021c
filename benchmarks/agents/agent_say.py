"""An agent on `accord.Agent` that streams."""

from __future__ import annotations

import json

from workload import chunk_text

from accord import Agent, Turn


class Say(Agent):
    """Says as many chunks as the prompt wants."""

    async def prompt(self, turn: Turn) -> None:
        for number in range(json.loads(turn.text)["n"]):
            await turn.say(chunk_text(number))


Say().run()
