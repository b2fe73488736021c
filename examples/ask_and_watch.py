"""A client of either version: watches a turn, decides by rule, and keeps the transcript.

Without an argument it uses the agent `greeter.py` in the same directory, otherwise the given
command.
"""

import asyncio
import sys
from pathlib import Path

import accord
from accord.client.permissions import allow

HERE = Path(__file__).parent


async def main(command: list[str]) -> None:
    async with accord.connect(command, permissions=allow("read", "search")) as agent:
        print(f"{agent.info.name}, version {agent.version} of the protocol")
        session = await agent.new_session(cwd=HERE)
        async with session.prompt("Hello, agent!") as turn:
            async for event in turn:
                match event:
                    case accord.Text(text):
                        print(text, end="")
                    case accord.ToolCall(title=title, status=status):
                        print(f"[{status}] {title}")
                    case accord.PermissionDecided():
                        print(f"allowed: {event.allowed}")
        print(f"\n{turn.stop_reason}")
        assert turn.stop_reason == "end_turn"
        assert "Hello, agent!" in turn.text
        assert [message.role for message in session.transcript.messages] == ["user", "agent"]


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] or [sys.executable, str(HERE / "greeter.py")]))
