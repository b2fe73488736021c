"""The script agent with what an agent can do wrong: it dies, hangs, floods, and writes nonsense."""

from __future__ import annotations

import os
import signal
import sys

from accord import Agent, SqliteStore, Turn
from accord.script_agent.agent import ScriptAgent


class SoakAgent(ScriptAgent):
    """Runs the command in each prompt. Its sessions survive its process."""

    mcp_transports = frozenset({"stdio"})

    def __init__(self) -> None:
        super().__init__()
        self.store = SqliteStore(os.environ["SOAK_STORE"])

    async def prompt(self, turn: Turn) -> str | None:
        """Run a command of the soak, or one of the script agent."""
        command, _, rest = turn.text.strip().partition(" ")
        match command:
            case "call":
                server = (await turn.session.connect_mcp())["caller"]
                result = await server.call("lookup", {"term": rest})
                text = "".join(getattr(part, "text", "") for part in result.content)
                await turn.say(f"found {text}")
            case "flood":
                for _ in range(int(rest)):
                    await turn.say("x" * 100)
            case "hang":
                await turn.say("hanging")
                signal.pause()  # it does not even read a cancel
            case "die":
                os._exit(3)
            case "nonsense":
                os.write(sys.__stdout__.fileno() if sys.__stdout__ else 1, b"{nonsense\n" * 3)
                await turn.say(rest)
            case "noise":
                os.write(2, b"noise " * 10_000)
                await turn.say(rest)
            case _:
                return await super().prompt(turn)
        return None


agent: Agent = SoakAgent()

if __name__ == "__main__":
    agent.run()
