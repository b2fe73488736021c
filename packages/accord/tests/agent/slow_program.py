"""An agent that answers in two parts, asks for permission, or never ends its turn."""

import asyncio
import subprocess
import sys

from accord import Agent, Turn


class Slow(Agent):
    async def prompt(self, turn: Turn) -> None:
        if turn.text == "forever":
            await asyncio.Event().wait()
        await turn.say("one")
        await asyncio.to_thread(subprocess.run, [sys.executable, "-ISc", ""])  # takes its time
        await turn.say("two")
        if turn.text == "ask":
            async with turn.tool("Ask") as call:
                await call.permission()


Slow().run()
