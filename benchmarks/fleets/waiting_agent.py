"""The script agent, which waits before each answer: python waiting_agent.py MS."""

from __future__ import annotations

import asyncio
import sys

from accord import Turn
from accord.script_agent.agent import ScriptAgent


class WaitingAgent(ScriptAgent):
    """Waits as for a model."""

    def __init__(self, wait_s: float) -> None:
        super().__init__()
        self.wait_s = wait_s

    async def prompt(self, turn: Turn) -> str | None:
        """Wait, and answer."""
        await asyncio.sleep(self.wait_s)
        return await super().prompt(turn)


if __name__ == "__main__":
    WaitingAgent(int(sys.argv[1]) / 1000).run()
