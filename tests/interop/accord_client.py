"""v1 client on Accord; the turn is described in README.md."""

import asyncio
import json
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from accord import v1
from accord.errors import RequestError
from accord.roles import connect
from accord.transports.process import process

SESSION = "session-1"
NOTES = Path.cwd() / "notes.txt"


class Screen(v1.ClientRole):
    """Records the updates and requests of the agent; files and terminals are simulated."""

    info = v1.Implementation(name="accord", version="1")

    def __init__(self) -> None:
        self.files = {str(NOTES): "first\nsecond\nthird\n"}
        self.updates: list[str] = []
        self.calls: list[str] = []
        self.said: list[str] = []
        self.seen: dict[str, Any] = {"mode": None}
        self.terminals: dict[str, v1.TerminalExitStatus | None] = {}
        self.created = 0
        self.cancelling = False

    def session_update(
        self, params: v1.SessionNotification, context: v1.ClientContext
    ) -> Awaitable[None] | None:
        assert params.session_id == SESSION
        self.updates.append(str(type(params.update).__struct_config__.tag))
        match params.update:
            case v1.CurrentModeUpdate(current_mode_id=mode):
                self.seen["mode"] = mode
            case v1.Plan(entries=entries):
                self.seen["plan"] = [entry.status for entry in entries]
            case v1.SessionInfoUpdate(title=title):
                self.seen["title"] = title
            case v1.ToolCall() | v1.ToolCallUpdate() as call:
                self.on_tool_call(call)
            case v1.AgentMessageChunk(content=v1.TextContent(text=text)):
                self.said.append(text)
                if text == "waiting":
                    return context.agent.cancel(v1.CancelNotification(session_id=SESSION))
            case _:
                pass
        return None

    def on_tool_call(self, call: v1.ToolCall | v1.ToolCallUpdate) -> None:
        if call.tool_call_id == "edit-1" and call.raw_input is not None:
            self.seen["rawInput"] = call.raw_input["nested"]
        for item in call.content or []:
            match item:
                case v1.Diff(path=path, old_text=old, new_text=new):
                    self.seen["diff"] = [Path(path).name, old, new]
                case v1.Terminal(terminal_id=terminal):
                    self.seen["terminal"] = terminal
                case _:
                    pass

    async def request_permission(
        self, params: v1.RequestPermissionRequest, context: v1.ClientContext
    ) -> v1.RequestPermissionResponse:
        kinds = ",".join(option.kind for option in params.options)
        self.called(f"permission {params.tool_call.tool_call_id} {kinds}", params.session_id)
        if self.cancelling:
            await context.agent.cancel(v1.CancelNotification(session_id=SESSION))
            return v1.RequestPermissionResponse(outcome=v1.CancelledPermissionOutcome())
        allow = next(option for option in params.options if option.kind == "allow_once")
        outcome = v1.SelectedPermissionOutcome(option_id=allow.option_id)
        return v1.RequestPermissionResponse(outcome=outcome)

    def read_text_file(
        self, params: v1.ReadTextFileRequest, context: v1.ClientContext
    ) -> v1.ReadTextFileResponse:
        self.called("read", params.session_id)
        lines = self.files[params.path].splitlines(keepends=True)[(params.line or 1) - 1 :]
        return v1.ReadTextFileResponse(content="".join(lines[: params.limit]))

    def write_text_file(
        self, params: v1.WriteTextFileRequest, context: v1.ClientContext
    ) -> v1.WriteTextFileResponse:
        self.called("write", params.session_id)
        self.files[params.path] = params.content
        return v1.WriteTextFileResponse()

    def create_terminal(
        self, params: v1.CreateTerminalRequest, context: v1.ClientContext
    ) -> v1.CreateTerminalResponse:
        self.called("create", params.session_id)
        self.created += 1
        self.terminals[f"terminal-{self.created}"] = None
        return v1.CreateTerminalResponse(terminal_id=f"terminal-{self.created}")

    def terminal_output(
        self, params: v1.TerminalOutputRequest, context: v1.ClientContext
    ) -> v1.TerminalOutputResponse:
        self.called("output", params.session_id)
        status = self.terminals[params.terminal_id]
        output = "2 passed\n" if status else ""
        return v1.TerminalOutputResponse(output=output, truncated=False, exit_status=status)

    def wait_for_terminal_exit(
        self, params: v1.WaitForTerminalExitRequest, context: v1.ClientContext
    ) -> v1.WaitForTerminalExitResponse:
        self.called("wait", params.session_id)
        status = self.terminals[params.terminal_id] or v1.TerminalExitStatus(exit_code=0)
        self.terminals[params.terminal_id] = status
        return v1.WaitForTerminalExitResponse(exit_code=status.exit_code, signal=status.signal)

    def kill_terminal(
        self, params: v1.KillTerminalRequest, context: v1.ClientContext
    ) -> v1.KillTerminalResponse:
        self.called("kill", params.session_id)
        self.terminals[params.terminal_id] = v1.TerminalExitStatus(signal="SIGKILL")
        return v1.KillTerminalResponse()

    def release_terminal(
        self, params: v1.ReleaseTerminalRequest, context: v1.ClientContext
    ) -> v1.ReleaseTerminalResponse:
        self.called("release", params.session_id)
        del self.terminals[params.terminal_id]
        return v1.ReleaseTerminalResponse()

    def extension_request(self, method: str, params: Any, context: v1.ClientContext) -> Any:
        if method == "_interop/echo":
            return params
        return super().extension_request(method, params, context)

    def called(self, name: str, session: str) -> None:
        assert session == SESSION
        self.calls.append(name)


async def turns(agent: v1.RemoteAgent, screen: Screen) -> dict[str, Any]:
    """Run the turns of README.md; return the values that the tests compare."""
    server = v1.McpServerStdio(
        name="notes",
        command="/bin/true",
        args=["--stdio"],
        env=[v1.EnvVariable(name="A", value="b")],
    )
    request = v1.NewSessionRequest(cwd=str(Path.cwd()), mcp_servers=[server])
    session = await agent.new_session(request)
    assert session.session_id == SESSION
    assert session.modes
    await agent.set_session_mode(v1.SetSessionModeRequest(session_id=SESSION, mode_id="code"))
    mode_at_answer = screen.seen["mode"]
    echo = (await agent.call_extension("_interop/echo", {"n": 1}))["n"]
    missing = 0
    try:
        await agent.call_extension("_interop/missing", {})
    except RequestError as error:
        missing = error.code

    async def say(text: str, *more: v1.ContentBlock) -> str:
        prompt = [v1.TextContent(text=text), *more]
        answer = await agent.prompt(v1.PromptRequest(session_id=SESSION, prompt=prompt))
        return answer.stop_reason

    stops = [await say("work", v1.ResourceLink(name="notes.txt", uri=NOTES.as_uri()))]
    sentence, saw = screen.said
    stops.append(await say("wait"))
    screen.cancelling = True
    stops.append(await say("ask"))
    reported = agent.initialized
    assert reported.agent_info
    return {
        "protocolVersion": reported.protocol_version,
        "agent": reported.agent_info.name,
        "embeddedContext": reported.agent_capabilities.prompt_capabilities.embedded_context,
        "modes": [mode.id for mode in session.modes.available_modes],
        "modeAtAnswer": mode_at_answer,
        "echo": echo,
        "missing": missing,
        "stops": stops,
        "sentence": sentence,
        "saw": json.loads(saw),
        "updates": screen.updates,
        "calls": screen.calls,
        "plan": screen.seen["plan"],
        "rawInput": screen.seen["rawInput"],
        "diff": screen.seen["diff"],
        "terminal": screen.seen["terminal"],
        "title": screen.seen["title"],
        "notes": screen.files[str(NOTES)],
        "leftTerminals": len(screen.terminals),
    }


async def main(command: list[str]) -> None:
    screen = Screen()
    async with connect(process(*command), screen) as agent:
        report = await turns(agent, screen)
    print(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
