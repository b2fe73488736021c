"""The client side in version 1: reads its updates, calls its agent and serves the agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar

from accord import v1
from accord.client.agent_adapter import (
    AgentAdapter,
    AuthMethod,
    OpenedSession,
    SessionSetup,
    TurnResult,
    UpdateReader,
)
from accord.client.events import (
    CommandsChanged,
    Event,
    ModeChanged,
    OptionsChanged,
    PermissionRequest,
    Plan,
    StateChanged,
    ToolCall,
    UnknownUpdate,
)
from accord.client.shared import (
    SharedClientRole,
    locations_from_wire,
    option_from_wire,
    plan_entries,
    shared_readers,
    token_usage_from_wire,
    update_reader,
)
from accord.client.shared import state_from_wire as read_state
from accord.client.transcript import Transcript
from accord.connection.tasks import Owning
from accord.errors import DecodeError
from accord.rules.quirks import tolerates
from accord.text import lenient_json
from accord.types.content import ContentBlock
from accord.types.convert_v1 import content_from_wire, content_to_wire, tool_content_from_wire
from accord.types.session import (
    AvailableCommand,
    Implementation,
    OptionChoice,
    SelectOption,
    SessionOption,
)
from accord.version import ProtocolVersion
from accord.wire.base import replace
from accord.wire.codec import to_builtins

if TYPE_CHECKING:
    from accord.client.files import ClientTerminals

# Reads the updates of version 1 as events.

_STATES: dict[type, str] = {
    v1.IdleState: "idle",
    v1.RunningState: "running",
    v1.RequiresActionState: "requires_action",
    v1.UnknownState: "unknown",
}


def state_from_wire(state: v1.SessionState) -> StateChanged:
    """Return the state of a session."""
    return read_state(_STATES, state)


@tolerates("unannounced-tool-call")
def apply_tool_call(details: v1.ToolCallDetails, transcript: Transcript) -> ToolCall | None:
    """Return a tool call with an update applied: None keeps the value of a field (A-24)."""
    changes: dict[str, Any] = {}
    for name in ("title", "name", "kind", "status", "raw_input", "raw_output", "meta"):
        value = getattr(details, name)
        if value is not None:
            changes[name] = value
    if details.content is not None:
        changes["content"] = tuple(map(tool_content_from_wire, details.content))
    if details.locations is not None:
        changes["locations"] = locations_from_wire(details.locations)
    known = transcript.tool_call(details.tool_call_id)
    if known is None:
        # Some agents skip `tool_call` and announce it here.
        return ToolCall(id=details.tool_call_id, changed=tuple(changes), **changes)
    changed = tuple(name for name, value in changes.items() if getattr(known, name) != value)
    if known.unfinished:
        changed = (*changed, "unfinished")
    return replace(known, changed=changed, unfinished=False, **changes) if changed else None


def _tool_call(call: v1.ToolCall, _transcript: Transcript) -> Event:
    return ToolCall(
        id=call.tool_call_id,
        title=call.title,
        kind=call.kind,
        status=call.status,
        name=call.name,
        content=tuple(map(tool_content_from_wire, call.content)),
        locations=locations_from_wire(call.locations),
        raw_input=call.raw_input,
        raw_output=call.raw_output,
        meta=call.meta,
        changed=("title", "kind", "status", "name", "content", "locations", "raw_input"),
    )


def _plan(update: v1.Plan, _transcript: Transcript) -> Event:
    return Plan(plan_entries(update.entries))


def _commands(update: v1.AvailableCommandsUpdate, _transcript: Transcript) -> Event:
    return CommandsChanged(
        tuple(
            AvailableCommand(c.name, c.description, None if c.input is None else c.input.hint)
            for c in update.available_commands
        )
    )


def _mode(update: v1.CurrentModeUpdate, transcript: Transcript) -> Event | None:
    mode = update.current_mode_id
    return None if transcript.mode == mode else ModeChanged(mode)


def _options(update: v1.ConfigOptionUpdate, transcript: Transcript) -> Event:
    options = options_from_wire(update.config_options)
    return OptionsChanged(with_modes(options, transcript.options))


def options_from_wire(options: Iterable[v1.SessionConfigOption]) -> tuple[SessionOption, ...]:
    """Return the config options of a session."""
    known = (option_from_wire(v1, option, option.id) for option in options)
    return _mode_marked(tuple(option for option in known if option is not None))


@tolerates("mode-without-category")
def _mode_marked(options: tuple[SessionOption, ...]) -> tuple[SessionOption, ...]:
    """Give an option `mode` without a category the category `mode`, if no option has it."""
    if any(option.category == "mode" for option in options):
        return options
    return tuple(
        replace(option, category="mode")
        if isinstance(option, SelectOption) and option.id == "mode" and option.category is None
        else option
        for option in options
    )


def with_modes(
    options: tuple[SessionOption, ...], earlier: Iterable[SessionOption]
) -> tuple[SessionOption, ...]:
    """Return config options that the agent sent with the modes among the `earlier` options.

    A mode option replaces the modes (R-MODE-04). The modes have the id `mode`, or another one if a
    config option of another category has it.
    """
    modes = next((o for o in earlier if isinstance(o, SelectOption) and o.from_modes), None)
    if modes is None or any(option.category == "mode" for option in options):
        return options
    ids = {option.id for option in options}
    free = next(name for name in _mode_ids() if name not in ids)
    return (modes if modes.id == free else replace(modes, id=free), *options)


def _mode_ids() -> Iterator[str]:
    yield "mode"
    yield "session_mode"
    yield from (f"session_mode_{number}" for number in count(2))


def option_from_modes(modes: v1.SessionModeState) -> SelectOption:
    """Return the modes of an agent without a mode option as an option."""
    choices = (OptionChoice(mode.id, mode.name, mode.description) for mode in modes.available_modes)
    return SelectOption(
        id="mode",
        name="Mode",
        value=modes.current_mode_id,
        choices=tuple(choices),
        category="mode",
        from_modes=True,
    )


def _unknown(update: Any) -> Event:
    return UnknownUpdate(to_builtins(update))


READERS: dict[type, UpdateReader] = {
    **shared_readers(v1, content_from_wire, state_from_wire),
    v1.ToolCall: _tool_call,
    v1.ToolCallUpdate: apply_tool_call,
    v1.Plan: _plan,
    v1.AvailableCommandsUpdate: _commands,
    v1.CurrentModeUpdate: _mode,
    v1.ConfigOptionUpdate: _options,
}
events_from_update: UpdateReader = update_reader(v1, READERS, _unknown)


# Calls an agent of version 1.


class AgentAdapterV1(AgentAdapter):
    """Calls an agent of version 1."""

    version: ClassVar[ProtocolVersion] = 1
    types = v1
    method_names: ClassVar[Mapping[str, str]] = {
        "login": "authenticate",
        "providers": "list_providers",
    }
    echoes_prompts = False
    events_from_update: UpdateReader = staticmethod(events_from_update)
    options_from_wire: Callable[[Any], tuple[SessionOption, ...]] = staticmethod(options_from_wire)
    content_to_wire: Callable[[ContentBlock], Any] = staticmethod(content_to_wire)
    remote: v1.RemoteAgent

    @property
    def info(self) -> Implementation:
        info = self.remote.initialized.agent_info
        if info is None:
            return Implementation("agent")
        return Implementation(info.name, info.version, info.title)

    @property
    def auth_methods(self) -> tuple[AuthMethod, ...]:
        return tuple(map(_auth_method, self.remote.initialized.auth_methods))

    def supports_content(self, kind: str) -> bool:
        prompt = self.remote.initialized.agent_capabilities.prompt_capabilities
        match kind:
            case "image":
                return prompt.image
            case "audio":
                return prompt.audio
            case "resource":
                return prompt.embedded_context
            case _:
                return kind in ("text", "link")

    @property
    def mcp_transports(self) -> frozenset[str]:
        mcp = self.remote.initialized.agent_capabilities.mcp_capabilities
        # stdio always (R-MCP-01)
        kinds = {"acp": mcp.acp, "http": mcp.http, "sse": mcp.sse, "stdio": True}
        return frozenset(kind for kind, is_supported in kinds.items() if is_supported)

    def opened_session(
        self,
        session_id: str,
        response: v1.NewSessionResponse
        | v1.LoadSessionResponse
        | v1.ResumeSessionResponse
        | v1.ForkSessionResponse,
    ) -> OpenedSession:
        options: tuple[SessionOption, ...] | None = None
        if response.config_options is not None:
            options = options_from_wire(response.config_options)
        if response.modes is not None:
            options = with_modes(options or (), [option_from_modes(response.modes)])
        return OpenedSession(session_id=session_id, options=options)

    async def load_session(
        self, session_id: str, setup: SessionSetup, *, replay: bool, opened: Callable[[Any], None]
    ) -> OpenedSession:
        params = self.setup_to_wire(setup)
        if replay or not self.supports("resume_session"):
            load = v1.LoadSessionRequest(session_id=session_id, **params)
            response = await self.remote.load_session(load, opened=opened)
        else:
            resume = v1.ResumeSessionRequest(session_id=session_id, **params)
            response = await self.remote.resume_session(resume, opened=opened)
        return self.opened_session(session_id, response)

    async def prompt(
        self,
        session_id: str,
        contents: Sequence[ContentBlock],
        inserted: Callable[[str], None],
        meta: dict[str, Any] | None,
    ) -> TurnResult:
        blocks = [content_to_wire(content) for content in contents]
        response = await self.remote.prompt(
            v1.PromptRequest(session_id=session_id, prompt=blocks, meta=meta)
        )
        usage = response.usage
        return TurnResult(
            stop_reason=response.stop_reason,
            token_usage=None if usage is None else token_usage_from_wire(usage),
            meta=response.meta,
        )

    async def cancel(self, session_id: str) -> None:
        await self.remote.cancel(v1.CancelNotification(session_id=session_id))

    async def set_option(
        self, session_id: str, option: SessionOption, value: str | bool
    ) -> tuple[SessionOption, ...] | None:
        if isinstance(option, SelectOption) and option.from_modes:
            await self.remote.set_session_mode(
                v1.SetSessionModeRequest(session_id=session_id, mode_id=str(value))
            )
            return None
        return await super().set_option(session_id, option, value) or None

    def keep_modes(
        self, options: tuple[SessionOption, ...], earlier: tuple[SessionOption, ...]
    ) -> tuple[SessionOption, ...]:
        return with_modes(options, earlier)

    async def authenticate(self, method_id: str) -> None:
        await self.remote.authenticate(v1.AuthenticateRequest(method_id=method_id))

    async def logout(self) -> None:
        await self.remote.logout(v1.LogoutRequest())


def _auth_method(method: v1.AuthMethod) -> AuthMethod:
    match method:
        case v1.AuthMethodTerminal():
            return AuthMethod(
                id=method.id,
                name=method.name,
                description=method.description,
                terminal=True,
                args=tuple(method.args),
                env=tuple(method.env.items()),
            )
        case v1.AuthMethodAgent():
            return AuthMethod(id=method.id, name=method.name, description=method.description)


# Serves the requests of an agent of version 1.


class ClientRoleV1(SharedClientRole, v1.ClientRole):
    """The client role of version 1."""

    types = v1
    events_from_update: UpdateReader = staticmethod(events_from_update)

    def capabilities(self) -> v1.ClientCapabilities:
        options = v1.SessionConfigOptionsCapabilities(boolean=v1.BooleanConfigOptionCapabilities())
        session = v1.ClientSessionCapabilities(
            compaction=v1.CompactionCapabilities(),
            config_options=options,
            notices=v1.NoticeCapabilities(),
        )
        handlers = self._handlers
        capabilities = v1.ClientCapabilities(
            fs=v1.FileSystemCapabilities(
                read_text_file=handlers.files.readable, write_text_file=handlers.files.writable
            ),
            terminal=handlers.terminals is not None,
            session=session,
            elicitation=self._elicitation_capabilities(),
            subagents=v1.SubagentCapabilities() if handlers.unstable else None,
            plan=v1.PlanCapabilities() if handlers.unstable else None,
        )
        if not handlers.terminal_login:
            return capabilities  # the key `auth` is omitted, like those of other capabilities
        return replace(capabilities, auth=v1.AuthCapabilities(terminal=True))

    def advertises_capabilities(self) -> bool:
        """Notices, compactions and boolean options are not worth a second `initialize`."""
        return replace(self.capabilities(), session=None) != v1.ClientCapabilities()

    @tolerates("unknown-updates")
    def on_undecodable_notification(self, method: str, params: Any, error: DecodeError) -> None:
        """Publish an update of a type that version 1 does not define, as sent (A-30)."""
        if method != "session/update" or not lenient_json.is_object(params):
            return
        session_id = params.get("sessionId")
        stream = self._event_streams.get(session_id) if isinstance(session_id, str) else None
        if stream is not None:
            stream.publish(UnknownUpdate(params.get("update")))

    async def request_permission(
        self, params: v1.RequestPermissionRequest, context: v1.ClientContext
    ) -> v1.RequestPermissionResponse:
        stream = self._stream(params.session_id)
        # The request can change the tool call (R-PERM-06).
        call = apply_tool_call(params.tool_call, stream.transcript)
        if call is not None:
            stream.publish(call)
        if stream.is_cancelling:  # then the response is the outcome `cancelled` (R-PERM-03)
            return v1.RequestPermissionResponse(outcome=v1.CancelledPermissionOutcome())
        call = stream.transcript.tool_call(params.tool_call.tool_call_id)
        setup = self._handlers.find_setup(params.session_id)
        request = PermissionRequest(
            session_id=params.session_id,
            cwd="/" if setup is None else setup.cwd,
            title="" if call is None else call.title,
            options=self._permission_options(params.options),
            tool_call=call,
        )
        return await self._decide(stream, request)

    # Files and terminals.

    def read_text_file(
        self, params: v1.ReadTextFileRequest, context: v1.ClientContext
    ) -> v1.ReadTextFileResponse | Awaitable[v1.ReadTextFileResponse]:
        setup = self._handlers.session_setup(params.session_id)
        text = self._handlers.files.read(setup, params.path, params.line, params.limit)
        if isinstance(text, str):
            return v1.ReadTextFileResponse(content=text)
        return Owning(_file(text), text)

    async def write_text_file(
        self, params: v1.WriteTextFileRequest, context: v1.ClientContext
    ) -> v1.WriteTextFileResponse:
        setup = self._handlers.session_setup(params.session_id)
        await self._handlers.files.write(setup, params.path, params.content)
        if (meter := self._stream(params.session_id).meter) is not None:
            meter.wrote(params.path)
        return v1.WriteTextFileResponse()

    def create_terminal(
        self, params: v1.CreateTerminalRequest, context: v1.ClientContext
    ) -> v1.CreateTerminalResponse:
        setup = self._handlers.session_setup(params.session_id)
        terminal_id = self._terminals.create(
            self._stream(params.session_id),
            [params.command, *params.args],
            params.cwd or setup.cwd,
            {variable.name: variable.value for variable in params.env},
            params.output_byte_limit,
        )
        return v1.CreateTerminalResponse(terminal_id=terminal_id)

    def terminal_output(
        self, params: v1.TerminalOutputRequest, context: v1.ClientContext
    ) -> v1.TerminalOutputResponse:
        text, truncated, ended = self._terminals.output(params.session_id, params.terminal_id)
        status = None if ended is None else v1.TerminalExitStatus(**_exit(*ended))
        return v1.TerminalOutputResponse(output=text, truncated=truncated, exit_status=status)

    async def wait_for_terminal_exit(
        self, params: v1.WaitForTerminalExitRequest, context: v1.ClientContext
    ) -> v1.WaitForTerminalExitResponse:
        ended = await self._terminals.wait(params.session_id, params.terminal_id)
        return v1.WaitForTerminalExitResponse(**_exit(*ended))

    async def kill_terminal(
        self, params: v1.KillTerminalRequest, context: v1.ClientContext
    ) -> v1.KillTerminalResponse:
        await self._terminals.kill(params.session_id, params.terminal_id)
        return v1.KillTerminalResponse()

    async def release_terminal(
        self, params: v1.ReleaseTerminalRequest, context: v1.ClientContext
    ) -> v1.ReleaseTerminalResponse:
        await self._terminals.release(params.session_id, params.terminal_id)
        return v1.ReleaseTerminalResponse()

    @property
    def _terminals(self) -> ClientTerminals:
        assert self._handlers.terminals is not None, "terminals were not offered"
        return self._handlers.terminals


async def _file(text: Awaitable[str]) -> v1.ReadTextFileResponse:
    return v1.ReadTextFileResponse(content=await text)


def _exit(code: int | None, signal: str | None) -> dict[str, Any]:
    """Return an exit as v1 writes it, codes in 32 bits without a sign (A-51)."""
    return {"exit_code": None if code is None else code & 0xFFFFFFFF, "signal": signal}
