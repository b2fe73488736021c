"""A client at the level of the wire (v1): starts v1_agent.py, holds a file, grants a permission."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from accord import v1
from accord.roles import connect
from accord.transports.process import process

AGENT = Path(__file__).with_name("v1_agent.py")
NOTES = "/home/me/notes.txt"


class Screen(v1.ClientRole):
    """Shows what the agent does; its files live in a dict."""

    def __init__(self) -> None:
        self.files = {NOTES: "hello from the editor"}
        self.text = ""
        self.statuses: list[str] = []

    def session_update(self, params: v1.SessionNotification, context: v1.ClientContext) -> None:
        match params.update:
            case v1.AgentMessageChunk(content=v1.TextContent(text=text)):
                self.text += text
            case v1.ToolCall(title=title, status=status):
                self.statuses.append(status)
                print(f"[{status}] {title}")
            case v1.ToolCallUpdate(status=str(status)):
                self.statuses.append(status)
                print(f"[{status}]")
            case _:
                pass

    def request_permission(
        self, params: v1.RequestPermissionRequest, context: v1.ClientContext
    ) -> v1.RequestPermissionResponse:
        allow = next(option for option in params.options if option.kind == "allow_once")
        print(f"Granted: {allow.name}")
        return v1.RequestPermissionResponse(
            outcome=v1.SelectedPermissionOutcome(option_id=allow.option_id)
        )

    def read_text_file(
        self, params: v1.ReadTextFileRequest, context: v1.ClientContext
    ) -> v1.ReadTextFileResponse:
        return v1.ReadTextFileResponse(content=self.files[params.path])

    def write_text_file(
        self, params: v1.WriteTextFileRequest, context: v1.ClientContext
    ) -> v1.WriteTextFileResponse:
        self.files[params.path] = params.content
        return v1.WriteTextFileResponse()


async def main() -> None:
    screen = Screen()
    async with connect(process(sys.executable, str(AGENT)), screen) as agent:
        session = await agent.new_session(v1.NewSessionRequest(cwd="/home/me", mcp_servers=[]))
        answer = await agent.prompt(
            v1.PromptRequest(session_id=session.session_id, prompt=[v1.TextContent(text=NOTES)])
        )
    print(screen.text)
    assert answer.stop_reason == "end_turn"
    assert screen.text == "All capitals now."
    assert screen.statuses == ["pending", "completed"]
    assert screen.files[NOTES] == "HELLO FROM THE EDITOR"


if __name__ == "__main__":
    asyncio.run(main())
