"""An agent that cannot be steered: `listen` works until it is cancelled, `ask` asks the user."""

from __future__ import annotations

import asyncio

from accord import Agent, Turn


class Deaf(Agent):
    """Repeats its prompts."""

    async def prompt(self, turn: Turn) -> None:
        match turn.text:
            case "listen":
                await turn.say("I am listening.")
                await asyncio.Event().wait()
            case "ask":
                async with turn.tool("Delete everything") as call:
                    allowed = await call.permission()
                await turn.say("allowed" if allowed else "rejected")
            case text:
                await turn.say(f"got: {text}")


if __name__ == "__main__":
    Deaf().run()
