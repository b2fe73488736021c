"""Agent on Accord, v1 and v2 on one connection; the turn is described in README.md."""

import asyncio
import json
import sys
from typing import Any
from urllib.parse import unquote, urlsplit

from accord_agent_v2 import PeerV2

from accord import v1
from accord.errors import InvalidParams
from accord.roles import serve
from accord.transports.stdio import stdio
from accord.wire.base import replace

SENTENCE = 'Grüße 👋 "quoted" \\ back\u2028slash\n'


class Peer(v1.AgentRole):
    """The v1 role."""

    info = v1.Implementation(name="accord", version="1")

    def __init__(self) -> None:
        self.cancelled = asyncio.Event()

    def capabilities(self) -> v1.AgentCapabilities:
        prompt = v1.PromptCapabilities(embedded_context=True)
        return replace(super().capabilities(), prompt_capabilities=prompt)

    def new_session(
        self, params: v1.NewSessionRequest, context: v1.AgentContext
    ) -> v1.NewSessionResponse:
        match params.mcp_servers:
            case [v1.McpServerStdio(env=[v1.EnvVariable(name="A", value="b")])]:
                pass
            case servers:
                raise InvalidParams(f"other servers: {servers}")
        modes = [v1.SessionMode(id="ask", name="Ask"), v1.SessionMode(id="code", name="Code")]
        state = v1.SessionModeState(current_mode_id="ask", available_modes=modes)
        return v1.NewSessionResponse(session_id="session-1", modes=state)

    async def set_session_mode(
        self, params: v1.SetSessionModeRequest, context: v1.AgentContext
    ) -> v1.SetSessionModeResponse:
        turn = Turn(params.session_id, context.client)
        await turn.show(v1.CurrentModeUpdate(current_mode_id=params.mode_id))
        return v1.SetSessionModeResponse()

    def extension_request(self, method: str, params: Any, context: v1.AgentContext) -> Any:
        return (
            params
            if method == "_interop/echo"
            else super().extension_request(method, params, context)
        )

    def cancel(self, params: v1.CancelNotification, context: v1.AgentContext) -> None:
        self.cancelled.set()

    async def prompt(self, params: v1.PromptRequest, context: v1.AgentContext) -> v1.PromptResponse:
        self.cancelled.clear()
        turn = Turn(params.session_id, context.client)
        match params.prompt:
            case [v1.TextContent(text="work"), v1.ResourceLink(uri=uri)]:
                await turn.work(unquote(urlsplit(uri).path))
                return v1.PromptResponse(stop_reason="end_turn")
            case [v1.TextContent(text="wait")]:
                await turn.say("waiting")
                await self.cancelled.wait()
                return v1.PromptResponse(stop_reason="cancelled")
            case [v1.TextContent(text="ask")]:
                outcome = await turn.permission("edit-2")
                await self.cancelled.wait()
                return v1.PromptResponse(
                    stop_reason="cancelled" if outcome == "cancelled" else "refusal"
                )
            case other:
                raise InvalidParams(f"no such prompt: {other}")


class Turn:
    """The client, in one session."""

    def __init__(self, session: str, client: v1.RemoteClient) -> None:
        self.client = client
        self.session = session

    async def show(self, update: v1.SessionUpdate) -> None:
        await self.client.session_update(
            v1.SessionNotification(session_id=self.session, update=update)
        )

    async def say(self, text: str) -> None:
        await self.show(v1.AgentMessageChunk(content=v1.TextContent(text=text)))

    async def plan(self, first: v1.PlanEntryStatus, second: v1.PlanEntryStatus) -> None:
        edit = v1.PlanEntry(content="Edit the notes", priority="high", status=first)
        test = v1.PlanEntry(content="Run the tests", priority="low", status=second)
        await self.show(v1.Plan(entries=[edit, test]))

    async def permission(self, tool_call: str) -> str:
        answer = await self.client.request_permission(
            v1.RequestPermissionRequest(
                session_id=self.session,
                tool_call=v1.ToolCallDetails(
                    tool_call_id=tool_call, title="Edit notes.txt", kind="edit", status="pending"
                ),
                options=[
                    v1.PermissionOption(option_id="no", name="Reject", kind="reject_once"),
                    v1.PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
                ],
            )
        )
        match answer.outcome:
            case v1.SelectedPermissionOutcome(option_id=option):
                return option
            case v1.CancelledPermissionOutcome():
                return "cancelled"

    async def work(self, path: str) -> None:
        await self.show(v1.AgentThoughtChunk(content=v1.TextContent(text="Let me look.")))
        await self.plan("in_progress", "pending")
        hint = v1.UnstructuredCommandInput(hint="which ones")
        test = v1.AvailableCommand(name="test", description="Run the tests", input=hint)
        await self.show(v1.AvailableCommandsUpdate(available_commands=[test]))
        await self.show(
            v1.ToolCall(
                tool_call_id="edit-1",
                title="Edit notes.txt",
                kind="edit",
                locations=[v1.ToolCallLocation(path=path, line=2)],
                raw_input={"path": path, "nested": [1, None, {"deep": True}]},
            )
        )
        saw: dict[str, Any] = {"permission": await self.permission("edit-1")}
        await self.edit(path, saw)
        await self.terminals(saw)
        await self.plan("completed", "completed")
        await self.show(v1.SessionInfoUpdate(title="Edit the notes"))
        await self.show(v1.UsageUpdate(used=10, size=100))
        saw["echo"] = (await self.client.call_extension("_interop/echo", {"n": 2}))["n"]
        await self.say(SENTENCE)
        await self.say(json.dumps(saw))

    async def edit(self, path: str, saw: dict[str, Any]) -> None:
        client, session = self.client, self.session
        await self.show(v1.ToolCallUpdate(tool_call_id="edit-1", status="in_progress"))
        part = v1.ReadTextFileRequest(session_id=session, path=path, line=2, limit=1)
        saw["read"] = (await client.read_text_file(part)).content
        whole = v1.ReadTextFileRequest(session_id=session, path=path)
        before = (await client.read_text_file(whole)).content
        after = before.replace(saw["read"], saw["read"].upper())
        await client.write_text_file(
            v1.WriteTextFileRequest(session_id=session, path=path, content=after)
        )
        diff = v1.Diff(path=path, old_text=before, new_text=after)
        await self.show(
            v1.ToolCallUpdate(tool_call_id="edit-1", status="completed", content=[diff])
        )

    async def terminals(self, saw: dict[str, Any]) -> None:
        client, session = self.client, self.session
        request = v1.CreateTerminalRequest(
            session_id=session,
            command="pytest",
            args=["-q"],
            env=[v1.EnvVariable(name="CI", value="1")],
            output_byte_limit=1024,
        )
        first = (await client.create_terminal(request)).terminal_id
        await self.show(
            v1.ToolCall(
                tool_call_id="run-1",
                title="pytest -q",
                kind="execute",
                status="in_progress",
                content=[v1.Terminal(terminal_id=first)],
            )
        )
        output = v1.TerminalOutputRequest(session_id=session, terminal_id=first)
        wait = v1.WaitForTerminalExitRequest(session_id=session, terminal_id=first)
        saw["runningAtFirst"] = (await client.terminal_output(output)).exit_status is None
        saw["exitCode"] = (await client.wait_for_terminal_exit(wait)).exit_code
        late = await client.terminal_output(output)
        assert late.exit_status
        saw["output"], saw["exitStatus"] = late.output, late.exit_status.exit_code
        release = v1.ReleaseTerminalRequest(session_id=session, terminal_id=first)
        await client.release_terminal(release)
        request = v1.CreateTerminalRequest(session_id=session, command="sleep", args=["60"])
        second = (await client.create_terminal(request)).terminal_id
        await client.kill_terminal(v1.KillTerminalRequest(session_id=session, terminal_id=second))
        wait = v1.WaitForTerminalExitRequest(session_id=session, terminal_id=second)
        saw["signal"] = (await client.wait_for_terminal_exit(wait)).signal
        release = v1.ReleaseTerminalRequest(session_id=session, terminal_id=second)
        await client.release_terminal(release)
        raw = {"exitCode": saw["exitCode"]}
        await self.show(v1.ToolCallUpdate(tool_call_id="run-1", status="completed", raw_output=raw))


class Unprepared(Peer):
    """Does not handle `session/cancel`, so Accord cancels its prompt."""

    cancel = v1.AgentRole.cancel  # type: ignore[assignment]


if __name__ == "__main__":
    asyncio.run(serve(stdio(), Unprepared() if "--unprepared" in sys.argv else Peer(), PeerV2()))
