"""The script agent, which does not mind that acpbox puts `user: ` before each prompt."""

from __future__ import annotations

from accord import Turn
from accord.script_agent.agent import ScriptAgent

_BEFORE = "user: "


class BenchmarkAgent(ScriptAgent):
    """Runs the command in each prompt."""

    async def prompt(self, turn: Turn) -> str | None:
        turn.content = tuple(
            part.removeprefix(_BEFORE) if isinstance(part, str) else part for part in turn.content
        )
        return await super().prompt(turn)


if __name__ == "__main__":
    BenchmarkAgent().run()
