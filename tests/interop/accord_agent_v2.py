"""The v2 role of accord_agent.py; the turn is described in README.md."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote, urlsplit

from accord import v2
from accord.errors import InvalidParams
from accord.wire.base import replace

SENTENCE = ("Grüße 👋 ", '"quoted" \\ back\u2028slash\n')
PASSED = "2 passed ✓\n".encode()


def mode_option(current: str) -> v2.SessionConfigSelect:
    return v2.SessionConfigSelect(
        config_id="mode",
        name="Mode",
        category="mode",
        current_value=current,
        options=[
            v2.SessionConfigSelectOption(value="ask", name="Ask"),
            v2.SessionConfigSelectOption(value="code", name="Code"),
        ],
    )


class PeerV2(v2.AgentRole):
    """A session, its turns, and its open permission request."""

    info = v2.Implementation(name="accord", version="1")

    def __init__(self) -> None:
        self.running = set[asyncio.Task[None]]()
        self.sessions: dict[str, str] = {}
        self.prompts = 0
        self.cancelled = asyncio.Event()
        self.asking: asyncio.Task[str] | None = None

    def capabilities(self) -> v2.AgentCapabilities:
        session = v2.SessionCapabilities(
            prompt=v2.PromptCapabilities(embedded_context=v2.PromptEmbeddedContextCapabilities()),
            mcp=v2.McpCapabilities(stdio=v2.McpStdioCapabilities()),
        )
        return replace(super().capabilities(), session=session)

    def new_session(
        self, params: v2.NewSessionRequest, context: v2.AgentContext
    ) -> v2.NewSessionResponse:
        match params.mcp_servers:
            case [v2.McpServerStdio(env=[v2.EnvVariable(name="A", value="b")])]:
                pass
            case servers:
                raise InvalidParams(f"other servers: {servers}")
        self.sessions["session-1"] = params.cwd
        return v2.NewSessionResponse(session_id="session-1", config_options=[mode_option("ask")])

    def set_session_config_option(
        self, params: v2.SetSessionConfigOptionRequest, context: v2.AgentContext
    ) -> v2.SetSessionConfigOptionResponse:
        match params:
            case v2.SetSessionConfigOptionId(config_id="mode", value=value):
                return v2.SetSessionConfigOptionResponse(config_options=[mode_option(value)])
            case _:
                raise InvalidParams("no such option")

    def list_sessions(
        self, params: v2.ListSessionsRequest, context: v2.AgentContext
    ) -> v2.ListSessionsResponse:
        found = [v2.SessionInfo(session_id=name, cwd=cwd) for name, cwd in self.sessions.items()]
        return v2.ListSessionsResponse(sessions=found)

    async def resume_session(
        self, params: v2.ResumeSessionRequest, context: v2.AgentContext
    ) -> v2.ResumeSessionResponse:
        await Turn(params.session_id, context).show(v2.IdleStateUpdate())
        return v2.ResumeSessionResponse()

    def close_session(
        self, params: v2.CloseSessionRequest, context: v2.AgentContext
    ) -> v2.CloseSessionResponse:
        del self.sessions[params.session_id]
        return v2.CloseSessionResponse()

    def extension_request(self, method: str, params: Any, context: v2.AgentContext) -> Any:
        if method == "_interop/echo":
            return params
        return super().extension_request(method, params, context)

    def cancel(self, params: v2.CancelSessionNotification, context: v2.AgentContext) -> None:
        self.cancelled.set()
        if self.asking is not None:
            self.asking.cancel()

    async def prompt(self, params: v2.PromptRequest, context: v2.AgentContext) -> v2.PromptResponse:
        turn = Turn(params.session_id, context)
        task: Callable[[], Awaitable[str]]
        match params.prompt:
            case [v2.TextContent(text="work"), v2.ResourceLink(uri=uri)]:
                path = unquote(urlsplit(uri).path)

                def task() -> Awaitable[str]:
                    return turn.work(path)

            case [v2.TextContent(text="wait")]:

                def task() -> Awaitable[str]:
                    return self.wait(turn)

            case [v2.TextContent(text="ask")]:

                def task() -> Awaitable[str]:
                    return self.ask(turn)

            case other:
                raise InvalidParams(f"no such prompt: {other}")

        async def run() -> None:
            stop = await task()
            await turn.show(v2.IdleStateUpdate(stop_reason=stop))

        self.cancelled.clear()
        self.prompts += 1
        message = f"user-{self.prompts}"
        await turn.show(v2.UserMessage(message_id=message, content=params.prompt))
        await turn.show(v2.RunningStateUpdate())
        running = asyncio.create_task(run())
        self.running.add(running)
        running.add_done_callback(self.running.discard)
        return v2.PromptResponse(message_id=message)

    async def wait(self, turn: "Turn") -> str:
        await turn.say("message-3", "waiting")
        await self.cancelled.wait()
        return "cancelled"

    async def ask(self, turn: "Turn") -> str:
        self.asking = asyncio.ensure_future(turn.permission("edit-2"))
        try:
            outcome = await self.asking
        except asyncio.CancelledError:
            outcome = "cancelled"
        await turn.say("message-4", outcome)
        return "cancelled"


class Turn:
    """The client, in one session."""

    def __init__(self, session: str, context: v2.AgentContext) -> None:
        self.session = session
        self.client = context.client

    async def show(self, update: v2.SessionUpdate) -> None:
        await self.client.session_update(
            v2.UpdateSessionNotification(session_id=self.session, update=update)
        )

    async def say(self, message: str, text: str) -> None:
        await self.show(v2.AgentMessageChunk(message_id=message, content=v2.TextContent(text=text)))

    async def plan(self, first: str, second: str) -> None:
        edit = v2.PlanEntry(content="Edit the notes", priority="high", status=first)
        test = v2.PlanEntry(content="Run the tests", priority="low", status=second)
        await self.show(v2.PlanUpdate(plan=v2.PlanItems(plan_id="plan-1", entries=[edit, test])))

    async def permission(self, tool_call: str) -> str:
        call = v2.ToolCallDetails(tool_call_id=tool_call, status="pending")
        answer = await self.client.request_permission(
            v2.RequestPermissionRequest(
                session_id=self.session,
                title="Edit notes.txt?",
                description="Line 2 in capitals.",
                subject=v2.ToolCallPermissionSubject(tool_call=call),
                options=[
                    v2.PermissionOption(option_id="no", name="Reject", kind="reject_once"),
                    v2.PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
                ],
            )
        )
        match answer.outcome:
            case v2.SelectedPermissionOutcome(option_id=option):
                return option
            case _:
                return "cancelled"

    async def work(self, path: str) -> str:
        thought = v2.TextContent(text="Let me look.")
        await self.show(v2.AgentThoughtChunk(message_id="thought-1", content=thought))
        await self.plan("in_progress", "pending")
        hint = v2.TextCommandInput(hint="which ones")
        test = v2.Command(name="test", description="Run the tests", input=hint)
        await self.show(v2.AvailableCommandsUpdate(available_commands=[test]))
        await self.show(
            v2.ToolCallUpdate(
                tool_call_id="edit-1",
                title="Edit notes.txt",
                kind="edit",
                status="pending",
                locations=[v2.ToolCallLocation(path=path, line=2)],
                raw_input={"path": path, "nested": [1, None, {"deep": True}]},
            )
        )
        saw: dict[str, Any] = {"permission": await self.permission("edit-1")}
        await self.edit(path)
        await self.terminal("terminal-1")
        await self.plan("completed", "completed")
        await self.show(v2.SessionInfoUpdate(title="Edit the notes"))
        await self.show(v2.UsageUpdate(used=10, size=100))
        saw["echo"] = (await self.client.call_extension("_interop/echo", {"n": 2}))["n"]
        for part in SENTENCE:
            await self.say("message-1", part)
        summary = v2.TextContent(text=json.dumps(saw))
        await self.show(v2.AgentMessage(message_id="message-2", content=[summary]))
        return "end_turn"

    async def edit(self, path: str) -> None:
        await self.show(v2.ToolCallUpdate(tool_call_id="edit-1", status="in_progress"))
        line = v2.Content(content=v2.TextContent(text="one line"))
        await self.show(v2.ToolCallContentChunk(tool_call_id="edit-1", content=line))
        lines = f"--- {path}\n+++ {path}\n@@ -2 +2 @@\n-second\n+SECOND\n"
        patch = v2.DiffPatch(format="git_patch", text=lines)
        diff = v2.Diff(changes=[v2.DiffModify(path=path)], patch=patch)
        await self.show(
            v2.ToolCallUpdate(tool_call_id="edit-1", status="completed", content=[diff])
        )

    async def terminal(self, terminal: str) -> None:
        await self.show(v2.TerminalUpdate(terminal_id=terminal, command="pytest -q", cwd="/"))
        await self.show(
            v2.ToolCallUpdate(
                tool_call_id="run-1",
                title="pytest -q",
                kind="execute",
                status="in_progress",
                content=[v2.Terminal(terminal_id=terminal)],
            )
        )
        for part in (PASSED[:10], PASSED[10:]):
            data = base64.b64encode(part).decode()
            await self.show(v2.TerminalOutputChunk(terminal_id=terminal, data=data))
        status = v2.TerminalExitStatus(exit_code=0)
        await self.show(v2.TerminalUpdate(terminal_id=terminal, exit_status=status))
        await self.show(v2.ToolCallUpdate(tool_call_id="run-1", title=None, status="completed"))
