"""v2 agent on the official Python SDK 1.0; the turn is described in ../README.md."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote, urlsplit

from acp import RequestError
from acp.experimental import v2
from acp.experimental.v2 import schema
from pydantic import TypeAdapter

SENTENCE = ("Grüße 👋 ", '"quoted" \\ back\u2028slash\n')
PASSED = "2 passed ✓\n".encode()
OPTIONS = [
    schema.PermissionOption(option_id="no", name="Reject", kind="reject_once"),
    schema.PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
]
TEST: dict[str, Any] = {"type": "command", "name": "test", "description": "Run the tests"}
TEST["input"] = {"type": "text", "hint": "which ones"}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def mode_option(current: str) -> dict[str, Any]:
    options = [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}]
    option = {"configId": "mode", "name": "Mode", "category": "mode", "type": "select"}
    return {**option, "currentValue": current, "options": options}


class Peer:
    client: v2.AgentSideConnection

    def __init__(self) -> None:
        self.prompts = 0
        self.sessions: dict[str, str] = {}
        self.asking: asyncio.Task[Any] | None = None
        self.cancelled = asyncio.Event()
        self.running = set[asyncio.Task[None]]()

    def on_connect(self, conn: v2.AgentSideConnection) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        session = {"prompt": {"embeddedContext": {}}, "mcp": {"stdio": {}}}
        return schema.InitializeResponse(
            protocol_version=2,
            info=schema.Implementation(name="python", version="1"),
            capabilities=schema.AgentCapabilities.model_validate({"session": session}),
        )

    async def new_session(
        self, cwd: str, mcp_servers: Any = None, **_: Any
    ) -> schema.NewSessionResponse:
        assert mcp_servers[0].env[0].value == "b"
        self.sessions["session-1"] = cwd
        answer = {"sessionId": "session-1", "configOptions": [mode_option("ask")]}
        return schema.NewSessionResponse.model_validate(answer)

    async def set_config_option(
        self, config_id: str, session_id: str, value: Any, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        return schema.SetSessionConfigOptionResponse.model_validate(
            {"configOptions": [mode_option(value)]}
        )

    async def list_sessions(self, **_: Any) -> schema.ListSessionsResponse:
        sessions = [{"sessionId": name, "cwd": cwd} for name, cwd in self.sessions.items()]
        return schema.ListSessionsResponse.model_validate({"sessions": sessions})

    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        del self.sessions[session_id]
        return schema.CloseSessionResponse()

    async def handle_extension_request(self, method: str, params: Any) -> Any:
        if method != "_interop/echo":
            raise RequestError.method_not_found(method)
        return params

    async def cancel_session(self, session_id: str, **_: Any) -> None:
        self.cancelled.set()
        if self.asking:
            self.asking.cancel()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> schema.PromptResponse:
        tasks: dict[str, Callable[..., Awaitable[str]]]
        tasks = {"work": self.work, "wait": self.wait, "ask": self.ask}
        task = tasks[prompt[0].text]
        self.cancelled.clear()
        self.prompts += 1
        message = f"user-{self.prompts}"
        content = [
            block.model_dump(mode="json", by_alias=True, exclude_unset=True) for block in prompt
        ]
        await self.update("user_message", messageId=message, content=content)
        await self.update("state_update", state="running")

        async def run() -> None:
            stop = await task(*prompt[1:])
            await self.update("state_update", state="idle", stopReason=stop)

        running = asyncio.create_task(run())
        self.running.add(running)
        running.add_done_callback(self.running.discard)
        return schema.PromptResponse(message_id=message)

    async def update(self, tag: str, **fields: Any) -> None:
        update = {"sessionUpdate": tag, **fields}
        await self.client.session_update("session-1", UPDATE.validate_python(update))

    async def say(self, message: str, words: str, tag: str = "agent_message_chunk") -> None:
        await self.update(tag, messageId=message, content=text(words))

    async def plan(self, first: str, second: str) -> None:
        entries = [
            {"content": "Edit the notes", "priority": "high", "status": first},
            {"content": "Run the tests", "priority": "low", "status": second},
        ]
        plan = {"type": "items", "planId": "plan-1", "entries": entries}
        await self.update("plan_update", plan=plan)

    async def permission(self, tool_call: str) -> str:
        call = {"toolCallId": tool_call, "status": "pending"}
        subject = {"type": "tool_call", "toolCall": call}
        answer = await self.client.request_permission(
            session_id="session-1",
            title="Edit notes.txt?",
            description="Line 2 in capitals.",
            subject=schema.ToolCallPermissionSubjectVariant.model_validate(subject),
            options=OPTIONS,
        )
        return getattr(answer.outcome, "option_id", answer.outcome.outcome)

    async def wait(self) -> str:
        await self.say("message-3", "waiting")
        await self.cancelled.wait()
        return "cancelled"

    async def ask(self) -> str:
        self.asking = asyncio.create_task(self.permission("edit-2"))
        try:
            outcome = await self.asking
        except asyncio.CancelledError:
            outcome = "cancelled"
        await self.say("message-4", outcome)
        return "cancelled"

    async def work(self, link: schema.ResourceContentBlock) -> str:
        path = unquote(urlsplit(str(link.uri)).path)
        await self.say("thought-1", "Let me look.", "agent_thought_chunk")
        await self.plan("in_progress", "pending")
        await self.update("available_commands_update", availableCommands=[TEST])
        await self.update(
            "tool_call_update", toolCallId="edit-1", title="Edit notes.txt", kind="edit",
            status="pending", locations=[{"path": path, "line": 2}],
            rawInput={"path": path, "nested": [1, None, {"deep": True}]},
        )  # fmt: skip
        saw: dict[str, Any] = {"permission": await self.permission("edit-1")}
        await self.update("tool_call_update", toolCallId="edit-1", status="in_progress")
        item = {"type": "content", "content": text("one line")}
        await self.update("tool_call_content_chunk", toolCallId="edit-1", content=item)
        lines = f"--- {path}\n+++ {path}\n@@ -2 +2 @@\n-second\n+SECOND\n"
        diff = {
            "type": "diff",
            "changes": [{"operation": "modify", "path": path}],
            "patch": {"format": "git_patch", "text": lines},
        }
        await self.update(
            "tool_call_update", toolCallId="edit-1", status="completed", content=[diff]
        )
        await self.terminal("terminal-1")
        await self.plan("completed", "completed")
        await self.update("session_info_update", title="Edit the notes")
        await self.update("usage_update", used=10, size=100)
        try:
            saw["echo"] = (await self.client.send_extension_request("_interop/echo", {"n": 2}))["n"]
        except RequestError as error:
            saw["echo"] = error.code
        for part in SENTENCE:
            await self.say("message-1", part)
        await self.update("agent_message", messageId="message-2", content=[text(json.dumps(saw))])
        return "end_turn"

    async def terminal(self, terminal: str) -> None:
        await self.update("terminal_update", terminalId=terminal, command="pytest -q", cwd="/")
        shown = {"type": "terminal", "terminalId": terminal}
        await self.update(
            "tool_call_update", toolCallId="run-1", title="pytest -q", kind="execute",
            status="in_progress", content=[shown],
        )  # fmt: skip
        for part in (PASSED[:10], PASSED[10:]):
            data = base64.b64encode(part).decode()
            await self.update("terminal_output_chunk", terminalId=terminal, data=data)
        await self.update("terminal_update", terminalId=terminal, exitStatus={"exitCode": 0})
        await self.update("tool_call_update", toolCallId="run-1", title=None, status="completed")


UPDATE: TypeAdapter[Any] = TypeAdapter(
    schema.UpdateSessionNotification.model_fields["update"].annotation
)


if __name__ == "__main__":
    asyncio.run(v2.run_agent(Peer()))
