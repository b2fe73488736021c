"""v2 client on Accord; the turn is described in README.md."""

import asyncio
import base64
import json
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from accord import v2
from accord.errors import RequestError
from accord.roles import connect
from accord.transports.process import process
from accord.wire.base import UNSET

SESSION = "session-1"
NOTES = Path.cwd() / "notes.txt"


class Screen(v2.ClientRole):
    """Records the updates and requests of the agent."""

    info = v2.Implementation(name="accord", version="1")

    def __init__(self) -> None:
        self.updates: list[str] = []
        self.calls: list[str] = []
        self.echoed: list[list[str]] = []
        self.said: dict[str, str] = {}
        self.titles: dict[str, str | None] = {}
        self.terminal: dict[str, Any] = {}
        self.output = b""
        self.seen: dict[str, Any] = {}
        self.cancelling = False
        self.stops: asyncio.Queue[str | None] = asyncio.Queue()

    def session_update(
        self, params: v2.UpdateSessionNotification, context: v2.ClientContext
    ) -> Awaitable[None] | None:
        assert params.session_id == SESSION
        update: Any = params.update
        state = getattr(update, "state", None)
        self.updates.append(f"{type(update).__struct_config__.tag} {state or ''}".strip())
        match update:
            case v2.UserMessage(message_id=message, content=[v2.TextContent(text=text), *_]):
                self.echoed.append([message, text])
            case v2.IdleStateUpdate(stop_reason=reason):
                self.stops.put_nowait(reason)
            case v2.PlanUpdate(plan=v2.PlanItems(plan_id=plan, entries=entries)):
                self.seen["plan"] = [plan, *(entry.status for entry in entries)]
            case v2.AvailableCommandsUpdate(available_commands=commands):
                names = [item.name for item in commands if isinstance(item, v2.Command)]
                self.seen["commands"] = names
            case v2.SessionInfoUpdate(title=title):
                self.seen["title"] = title
            case v2.ToolCallUpdate():
                self.on_tool_call(update)
            case v2.TerminalUpdate(command=str(command)):
                self.terminal["command"] = command
            case v2.TerminalUpdate(exit_status=v2.TerminalExitStatus(exit_code=code)):
                self.terminal["exitCode"] = code
            case v2.TerminalOutputChunk(data=data):
                self.output += base64.b64decode(data)
            case v2.AgentMessage(message_id=message, content=[v2.TextContent(text=text)]):
                self.said[message] = text
            case v2.AgentMessageChunk(message_id=message, content=v2.TextContent(text=text)):
                self.said[message] = self.said.get(message, "") + text
                if text == "waiting":
                    return context.agent.cancel(v2.CancelSessionNotification(session_id=SESSION))
            case _:
                pass
        return None

    def on_tool_call(self, call: v2.ToolCallUpdate) -> None:
        if call.title is not UNSET:
            self.titles[call.tool_call_id] = call.title
        if call.raw_input is not UNSET:
            self.seen["rawInput"] = call.raw_input["nested"]
        for item in call.content or []:
            match item:
                case v2.Diff(changes=[v2.DiffModify(path=path)], patch=v2.DiffPatch(format=kind)):
                    self.seen["diff"] = [f"modify {Path(path).name}", kind]
                case v2.Terminal(terminal_id=terminal):
                    self.terminal["id"] = terminal
                case _:
                    pass

    async def request_permission(
        self, params: v2.RequestPermissionRequest, context: v2.ClientContext
    ) -> v2.RequestPermissionResponse:
        assert isinstance(params.subject, v2.ToolCallPermissionSubject)
        call = params.subject.tool_call.tool_call_id
        kinds = [option.kind for option in params.options]
        self.calls.append(",".join([params.title, "tool_call", call, *kinds]))
        if self.cancelling:
            await context.agent.cancel(v2.CancelSessionNotification(session_id=SESSION))
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.calls.append("withdrawn")
                raise  # and Accord answers the request with cancelled
        allow = next(option for option in params.options if option.kind == "allow_once")
        outcome = v2.SelectedPermissionOutcome(option_id=allow.option_id)
        return v2.RequestPermissionResponse(outcome=outcome)

    def extension_request(self, method: str, params: Any, context: v2.ClientContext) -> Any:
        if method == "_interop/echo":
            return params
        return super().extension_request(method, params, context)


async def turns(agent: v2.RemoteAgent, screen: Screen) -> dict[str, Any]:
    """Run the turns of README.md; return the values that the tests compare."""
    server = v2.McpServerStdio(
        name="notes",
        command="/bin/true",
        args=["--stdio"],
        env=[v2.EnvVariable(name="A", value="b")],
    )
    request = v2.NewSessionRequest(cwd=str(Path.cwd()), mcp_servers=[server])
    session = await agent.new_session(request)
    assert session.session_id == SESSION
    config = await agent.set_session_config_option(
        v2.SetSessionConfigOptionId(session_id=SESSION, config_id="mode", value="code")
    )
    echo = (await agent.call_extension("_interop/echo", {"n": 1}))["n"]
    missing = 0
    try:
        await agent.call_extension("_interop/missing", {})
    except RequestError as error:
        missing = error.code
    messages: list[str] = []

    async def say(text: str, *more: v2.ContentBlock) -> str | None:
        prompt = [v2.TextContent(text=text), *more]
        answer = await agent.prompt(v2.PromptRequest(session_id=SESSION, prompt=prompt))
        messages.append(answer.message_id)
        return await screen.stops.get()

    stops = [await say("work", v2.ResourceLink(name="notes.txt", uri=NOTES.as_uri()))]
    stops.append(await say("wait"))
    screen.cancelling = True
    stops.append(await say("ask"))
    found = await agent.list_sessions(v2.ListSessionsRequest())
    await agent.close_session(v2.CloseSessionRequest(session_id=SESSION))
    option, changed = session.config_options[0], config.config_options[0]
    assert isinstance(option, v2.SessionConfigSelect)
    assert isinstance(changed, v2.SessionConfigSelect)
    offered = agent.initialized.capabilities.session
    assert offered
    assert offered.prompt
    return {
        "protocolVersion": agent.initialized.protocol_version,
        "agent": agent.initialized.info.name,
        "embeddedContext": offered.prompt.embedded_context is not None,
        "modes": [getattr(choice, "value", None) for choice in option.options],
        "mode": changed.current_value,
        "echo": echo,
        "missing": missing,
        "messages": messages,
        "stops": stops,
        "saw": json.loads(screen.said.pop("message-2")),
        "said": screen.said,
        "terminal": {**screen.terminal, "output": screen.output.decode()},
        "updates": screen.updates,
        "calls": screen.calls,
        "echoed": screen.echoed,
        "titles": screen.titles,
        **screen.seen,
        "sessions": [entry.session_id for entry in found.sessions],
    }


async def main(command: list[str]) -> None:
    screen = Screen()
    async with connect(process(*command), screen) as agent:
        report = await turns(agent, screen)
    print(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
