"""An agent that sends increasing numbers until it ends, and stores its sessions in a file."""

from __future__ import annotations

import asyncio
import sys

from accord import Agent, SqliteStore, Turn, serve
from accord.transports.stdio import stdio


class Counting(Agent):
    """Sends numbers from the one in the prompt on; with `run` it also runs a command."""

    def __init__(self, path: str) -> None:
        self.store = SqliteStore(path)

    async def prompt(self, turn: Turn) -> str | None:
        first = str(turn.content[0])
        if first == "run":
            await turn.terminals.run(sys.executable, "-S", sys.argv[2])
            return None
        number = 0
        while True:
            await turn.say(f"{number} ")
            number += 1
            await asyncio.sleep(0)


asyncio.run(serve(Counting(sys.argv[1]), stdio()))
