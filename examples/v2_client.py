"""A client at the level of the wire (v2): prompts v2_agent.py and waits until it is idle."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from accord import v2
from accord.roles import connect
from accord.transports.process import process

AGENT = Path(__file__).with_name("v2_agent.py")


class Screen(v2.ClientRole):
    """Keeps what the agent reports."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.idle = asyncio.Event()

    def session_update(
        self, params: v2.UpdateSessionNotification, context: v2.ClientContext
    ) -> None:
        match params.update:
            case v2.UserMessage(message_id=message_id):
                self.log.append(f"{message_id} has its place")
            case v2.RunningStateUpdate():
                self.log.append("running")
            case v2.ToolCallUpdate(title=title, status=status):
                self.log.append(f"{title}: {status}")
            case v2.AgentMessageChunk(content=v2.TextContent(text=text)):
                self.log.append(text)
            case v2.IdleStateUpdate(stop_reason=reason):
                self.log.append(f"idle: {reason}")
                self.idle.set()
            case _:
                pass


async def main() -> None:
    screen = Screen()
    async with connect(process(sys.executable, str(AGENT)), screen) as agent:
        session = await agent.new_session(v2.NewSessionRequest(cwd="/home/me"))
        answer = await agent.prompt(
            v2.PromptRequest(
                session_id=session.session_id, prompt=[v2.TextContent(text="one two three")]
            )
        )
        async with asyncio.timeout(30):
            await screen.idle.wait()
    print(*screen.log, sep="\n")
    assert answer.message_id == "message-1"
    assert sorted(screen.log[:2]) == ["message-1 has its place", "running"]
    assert screen.log[2:] == ["Count: completed", "3 words", "idle: end_turn"]


if __name__ == "__main__":
    asyncio.run(main())
