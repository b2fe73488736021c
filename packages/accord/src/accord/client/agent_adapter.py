"""Calls an agent in one protocol version: the base of both adapters, and their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, Self

from msgspec import Struct

from accord.client.event_stream import UpdateReader
from accord.client.events import StateChanged
from accord.errors import NotOffered, RequestError
from accord.types.content import ContentBlock
from accord.types.mcp import (
    McpServer,
    McpServerAcp,
    McpServerHttp,
    McpServerSse,
    McpServerStdio,
)
from accord.types.session import (
    AuthAccount,
    AuthStatus,
    AvailableCommand,
    BooleanOption,
    Implementation,
    ProviderInfo,
    SessionOption,
    StopReason,
    SystemPrompt,
    TokenUsage,
)
from accord.version import ProtocolVersion
from accord.wire.protocol import Method

# The words of calls that the methods of `ClientSession` omit.
_OMITTED = frozenset(("session", "config"))


class SessionSetup(Struct, frozen=True, kw_only=True):
    """The parameters of a session; all paths are absolute."""

    cwd: str
    additional_directories: tuple[str, ...] = ()  # in addition to `cwd`
    mcp_servers: tuple[McpServer, ...] = ()
    system_prompt: SystemPrompt | None = None
    meta: dict[str, Any] | None = None  # `_meta` of the request that opens the session
    # The resolved paths, from before the agent knew the directories; None if not resolved yet.
    real_directories: tuple[str, ...] | None = None

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories that files may be in; `cwd` is the first (R-SESS-04)."""
        return (self.cwd, *self.additional_directories)


class OpenedSession(Struct, frozen=True, kw_only=True):
    """An opened session; None for what the response did not contain."""

    session_id: str
    options: tuple[SessionOption, ...] | None = None
    commands: tuple[AvailableCommand, ...] | None = None


class SessionInfo(Struct, frozen=True, kw_only=True):
    """A stored session (`v1.SessionInfo`, `v2.SessionInfo`); `updated_at` is RFC 3339."""

    id: str
    cwd: str
    additional_directories: tuple[str, ...] = ()
    title: str | None = None
    updated_at: str | None = None
    archived: bool | None = None


class SessionStatus(Struct, frozen=True, kw_only=True):
    """Whether a session is open in the agent, and its state.

    The wire types are `v1.SessionStatus` and `v2.SessionStatus`. The status may have
    changed already. A `state` of None does not mean idle.
    """

    is_open: bool
    state: StateChanged | None = None


class SessionPage(Struct, frozen=True):
    """A page of the session list; `next_cursor` is None on the last page."""

    sessions: tuple[SessionInfo, ...]
    next_cursor: str | None


class AuthMethod(Struct, frozen=True, kw_only=True):
    """An auth method.

    If `terminal` is true, run the agent's command with `args` and `env` added.
    """

    id: str
    name: str
    description: str | None = None
    terminal: bool = False
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()


class TurnResult(Struct, frozen=True, kw_only=True):
    """The result of a turn."""

    stop_reason: StopReason
    token_usage: TokenUsage | None = None
    error: RequestError | None = None
    meta: dict[str, Any] | None = None


class AgentAdapter:
    """Calls an agent in one protocol version.

    A method that both versions write alike is implemented here, by `call` if only one of them
    has it: then it raises `NotOffered` in the other, and no adapter changes.
    """

    version: ClassVar[ProtocolVersion]
    types: ClassVar[Any]  # the package of the version
    # The calls of this version for what only the API or the other version names so.
    method_names: ClassVar[Mapping[str, str]] = {}
    echoes_prompts: ClassVar[bool]  # the agent reports the prompt and its own state
    events_from_update: UpdateReader
    options_from_wire: Callable[[Any], tuple[SessionOption, ...]]
    content_to_wire: Callable[[ContentBlock], Any]

    def __init__(self, remote: Any) -> None:
        self.remote = remote  # the `RemoteAgent` of the version

    def on(self, remote: Any) -> Self:
        """Return an adapter of the same agent that calls it by another `RemoteAgent`."""
        other = copy(self)
        other.remote = remote
        return other

    @property
    def info(self) -> Implementation:
        """The name and version of the agent."""
        raise NotImplementedError

    @property
    def auth_methods(self) -> tuple[AuthMethod, ...]:
        """The auth methods that the agent advertises."""
        raise NotImplementedError

    def supports(self, method: str) -> bool:
        """Return whether the agent advertises a method, False for an unknown name."""
        call = self.method_calls(self.remote.spec.methods).get(method)
        return call is not None and self.remote.supports(call)

    @classmethod
    def method_calls(cls, methods: Iterable[Method]) -> dict[str, str]:
        """Return the calls of the methods of agents by all their names.

        These are the protocol's name (`session/set_mode`), the call (`set_session_mode`), and the
        call without the words that the methods of a session omit (`set_mode`).
        """
        calls: dict[str, str] = {}
        for method in methods:
            if method.to == "agent":
                words = (word for word in method.call.split("_") if word not in _OMITTED)
                calls |= dict.fromkeys((method.name, method.call, "_".join(words)), method.call)
        for name, call in cls.method_names.items():
            calls.setdefault(name, call)
        return calls

    async def call(self, method: str, **params: Any) -> Any:
        """Send a request that only some versions have; raise `NotOffered` in the others."""
        rows = self.types.METHODS
        row = next((row for row in rows if row.name == method and row.is_request), None)
        if row is None:
            raise NotOffered(method, f"a protocol version other than {self.version}")
        return await getattr(self.remote, row.call)(row.params(**params))

    def supports_content(self, kind: str) -> bool:
        """Return whether prompts may contain `text`, `link`, `image`, `audio` or `resource`."""
        raise NotImplementedError

    @property
    def mcp_transports(self) -> frozenset[str]:
        """The transports of MCP servers that the agent supports: `acp`, `http`, `sse`, `stdio`."""
        raise NotImplementedError

    # Sessions.

    async def new_session(self, setup: SessionSetup) -> OpenedSession:
        """Open a new session."""
        request = self.types.NewSessionRequest(**self.setup_to_wire(setup))
        response = await self.remote.new_session(request)
        return self.opened_session(response.session_id, response)

    async def load_session(
        self, session_id: str, setup: SessionSetup, *, replay: bool, opened: Callable[[Any], None]
    ) -> OpenedSession:
        """Open a stored session; `opened` is called before any later message is handled."""
        raise NotImplementedError

    async def fork_session(self, session_id: str, setup: SessionSetup) -> OpenedSession:
        """Open a copy of a session."""
        request = self.types.ForkSessionRequest(session_id=session_id, **self.setup_to_wire(setup))
        response = await self.remote.fork_session(request)
        return self.opened_session(response.session_id, response)

    def opened_session(self, session_id: str, response: Any) -> OpenedSession:
        """Return what the response to a request that opens a session contains."""
        raise NotImplementedError

    async def list_sessions(
        self, cwd: str | None, cursor: str | None, archived: str | None
    ) -> SessionPage:
        """Return one page of the stored sessions."""
        request = self.types.ListSessionsRequest(cwd=cwd, cursor=cursor, archived=archived)
        response = await self.remote.list_sessions(request)
        sessions = (
            SessionInfo(
                id=info.session_id,
                cwd=info.cwd,
                additional_directories=tuple(info.additional_directories),
                title=info.title,
                updated_at=info.updated_at,
                archived=info.archived,
            )
            for info in response.sessions
        )
        return SessionPage(tuple(sessions), response.next_cursor)

    async def close_session(self, session_id: str) -> None:
        """Close a session."""
        await self.remote.close_session(self.types.CloseSessionRequest(session_id=session_id))

    async def delete_session(self, session_id: str) -> None:
        """Delete a stored session."""
        await self.remote.delete_session(self.types.DeleteSessionRequest(session_id=session_id))

    async def archive_session(self, session_id: str) -> None:
        """Archive a session."""
        await self.remote.archive_session(self.types.ArchiveSessionRequest(session_id=session_id))

    async def unarchive_session(self, session_id: str) -> None:
        """Unarchive a session."""
        request = self.types.UnarchiveSessionRequest(session_id=session_id)
        await self.remote.unarchive_session(request)

    async def set_session_title(self, session_id: str, title: str) -> str:
        """Set the title of a session; return it as the agent has stored it."""
        request = self.types.SetSessionTitleRequest(session_id=session_id, title=title)
        return (await self.remote.set_session_title(request)).title

    async def session_status(self, session_id: str) -> SessionStatus:
        """Return whether a session is open, and its state if the version has one."""
        request = self.types.SessionStatusRequest(session_id=session_id)
        response = await self.remote.session_status(request)
        # An unknown status does not mean open (R-STATUS-05).
        return SessionStatus(is_open=response.status == "open", state=self.state_of(response))

    def state_of(self, response: Any) -> StateChanged | None:
        """Return the state in the response to `session/status`."""
        return None

    async def set_option(
        self, session_id: str, option: SessionOption, value: str | bool
    ) -> tuple[SessionOption, ...] | None:
        """Set a config option; return all options, None if the response has none."""
        types = self.types
        kind, new = types.SetSessionConfigOptionId, str(value)
        if isinstance(option, BooleanOption):
            kind, new = types.SetSessionConfigOptionBoolean, bool(value)
        request = kind(session_id=session_id, config_id=option.id, value=new)
        response = await self.remote.set_session_config_option(request)
        return self.options_from_wire(response.config_options)

    def keep_modes(
        self, options: tuple[SessionOption, ...], earlier: tuple[SessionOption, ...]
    ) -> tuple[SessionOption, ...]:
        """Return config options that the agent sent, with the modes that it has in addition."""
        return options

    # Turns.

    async def prompt(
        self,
        session_id: str,
        contents: Sequence[ContentBlock],
        inserted: Callable[[str], None],
        meta: dict[str, Any] | None,
    ) -> TurnResult | None:
        """Send a prompt; return the result of its turn, or None once the prompt is inserted.

        In the second case `inserted` was called with its message id, and a state ends the turn.
        """
        raise NotImplementedError

    async def cancel(self, session_id: str) -> None:
        """Cancel the turn of a session."""
        raise NotImplementedError

    async def cancel_tool_call(self, session_id: str, tool_call_id: str) -> None:
        """Cancel one tool call."""
        await self.call("tool_call/cancel", session_id=session_id, tool_call_id=tool_call_id)

    async def cancel_terminal(self, session_id: str, terminal_id: str) -> None:
        """Stop the command of one terminal."""
        await self.call("terminal/cancel", session_id=session_id, terminal_id=terminal_id)

    # Login and model providers.

    async def authenticate(self, method_id: str) -> None:
        """Log in by an auth method that the agent runs."""
        raise NotImplementedError

    async def logout(self) -> None:
        """Log out."""
        raise NotImplementedError

    async def auth_status(self) -> AuthStatus:
        """Return whether a user is logged in, and the accounts."""
        return auth_status_from_wire(await self.remote.auth_status(self.types.AuthStatusRequest()))

    async def providers(self) -> tuple[ProviderInfo, ...]:
        """Return the model providers that can be configured."""
        response = await self.remote.list_providers(self.types.ListProvidersRequest())
        return tuple(map(_provider, response.providers))

    async def set_provider(
        self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str]
    ) -> None:
        """Configure a model provider."""
        request = self.types.SetProviderRequest(
            provider_id=provider_id, api_type=api_type, base_url=base_url, headers=dict(headers)
        )
        await self.remote.set_provider(request)

    async def disable_provider(self, provider_id: str) -> None:
        """Disable a model provider."""
        await self.remote.disable_provider(
            self.types.DisableProviderRequest(provider_id=provider_id)
        )

    # What requests contain.

    def setup_to_wire(self, setup: SessionSetup) -> dict[str, Any]:
        """Return the params that all requests have which open a session."""
        return {
            "cwd": setup.cwd,
            "mcp_servers": [self.server_to_wire(server) for server in setup.mcp_servers],
            "additional_directories": list(setup.additional_directories),
            "system_prompt": self._system_prompt(setup),
            "meta": setup.meta,
        }

    def server_to_wire(self, server: Any) -> Any:
        """Return an MCP server as the version writes it; a value of the version stays as it is."""
        types = self.types
        match server:
            case McpServerStdio(name, command, args, env):
                pairs = [types.EnvVariable(name=key, value=value) for key, value in env.items()]
                return types.McpServerStdio(name=name, command=command, args=list(args), env=pairs)
            case McpServerHttp(name, url, headers):
                return types.McpServerHttp(name=name, url=url, headers=self._headers(headers))
            case McpServerSse(name, url, headers):
                return types.McpServerSse(name=name, url=url, headers=self._headers(headers))
            case McpServerAcp(name, server_id):
                return types.McpServerAcp(name=name, server_id=server_id)
            case _:
                return server

    def _headers(self, headers: Mapping[str, str]) -> list[Any]:
        return [self.types.HttpHeader(name=key, value=value) for key, value in headers.items()]

    def _system_prompt(self, setup: SessionSetup) -> Any:
        prompt = setup.system_prompt
        if prompt is None:
            return None
        content = [self.content_to_wire(content) for content in prompt.content]
        return self.types.SystemPrompt(mode=prompt.mode, content=content)


def auth_status_from_wire(status: Any) -> AuthStatus:
    """Return the login state and accounts; an unknown state is `unknown`."""
    known = status.state in ("authenticated", "unauthenticated", "not_required")
    accounts = (
        AuthAccount(a.label, a.active, a.name, a.email, a.organization) for a in status.accounts
    )
    return AuthStatus(status.state if known else "unknown", tuple(accounts))


def _provider(info: Any) -> ProviderInfo:
    current = info.current
    return ProviderInfo(
        id=info.provider_id,
        supported=tuple(info.supported),
        required=info.required,
        api_type=None if current is None else current.api_type,
        base_url=None if current is None else current.base_url,
    )
