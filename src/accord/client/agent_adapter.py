"""What a client does with an agent, whatever version the two speak."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from accord.client.event_stream import UpdateReader
from accord.client.events import StateChanged
from accord.errors import RequestError
from accord.types.auth import AuthStatus, ProviderInfo
from accord.types.content import ContentBlock
from accord.types.mcp import McpServer
from accord.types.session import (
    AvailableCommand,
    Implementation,
    SessionOption,
    StopReason,
    SystemPrompt,
    TokenUsage,
)
from accord.version import ProtocolVersion

__all__ = (
    "AgentAdapter",
    "AuthMethod",
    "OpenedSession",
    "SessionInfo",
    "SessionPage",
    "SessionSetup",
    "SessionStatus",
    "TurnResult",
)


class SessionSetup(Struct, frozen=True, kw_only=True):
    """Where a session works and with what; all paths are absolute."""

    cwd: str
    additional_directories: tuple[str, ...] = ()  # besides `cwd`
    mcp_servers: tuple[McpServer, ...] = ()
    system_prompt: SystemPrompt | None = None
    # Where all of them lead, found out before the agent knew of them; None: not resolved yet.
    real_directories: tuple[str, ...] | None = None

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories that files may be in; `cwd` is the first (R-SESS-04)."""
        return (self.cwd, *self.additional_directories)


class OpenedSession(Struct, frozen=True, kw_only=True):
    """A session is open; None where the agent did not say."""

    session_id: str
    options: tuple[SessionOption, ...] | None = None
    commands: tuple[AvailableCommand, ...] | None = None


class SessionInfo(Struct, frozen=True, kw_only=True):
    """A session that the agent has stored; `updated_at` is RFC 3339."""

    id: str
    cwd: str
    additional_directories: tuple[str, ...] = ()
    title: str | None = None
    updated_at: str | None = None
    archived: bool | None = None


class SessionStatus(Struct, frozen=True, kw_only=True):
    """Whether the agent has a session in memory, and what it does there.

    It may have changed already; no `state` does not mean idle.
    """

    is_open: bool
    state: StateChanged | None = None


class SessionPage(Struct, frozen=True):
    """Some of the sessions; with a cursor there are more."""

    sessions: tuple[SessionInfo, ...]
    next_cursor: str | None


class AuthMethod(Struct, frozen=True, kw_only=True):
    """A way to log in; `terminal`: by running the agent's command with `args` and `env` added."""

    id: str
    name: str
    description: str | None = None
    terminal: bool = False
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()


class TurnResult(Struct, frozen=True, kw_only=True):
    """A turn has ended, and why."""

    stop_reason: StopReason
    token_usage: TokenUsage | None = None
    error: RequestError | None = None
    meta: dict[str, Any] | None = None


class AgentAdapter(Protocol):
    """One version, spoken."""

    version: ProtocolVersion
    events_from_update: UpdateReader
    remote: Any  # the version's RemoteAgent
    echoes_prompts: bool  # the agent itself tells of the prompt and of its own state

    @property
    def info(self) -> Implementation: ...

    @property
    def auth_methods(self) -> tuple[AuthMethod, ...]: ...

    def supports(self, method: str) -> bool: ...

    def supports_content(self, kind: str) -> bool: ...

    async def new_session(self, setup: SessionSetup) -> OpenedSession: ...

    async def load_session(
        self, session_id: str, setup: SessionSetup, *, replay: bool, opened: Callable[[Any], None]
    ) -> OpenedSession:
        """Open a stored session; `opened` is called before any later message is handled."""
        ...

    async def fork_session(self, session_id: str, setup: SessionSetup) -> OpenedSession: ...

    async def list_sessions(
        self, cwd: str | None, cursor: str | None, archived: str | None
    ) -> SessionPage: ...

    async def close_session(self, session_id: str) -> None: ...

    async def delete_session(self, session_id: str) -> None: ...

    async def archive_session(self, session_id: str) -> None: ...

    async def unarchive_session(self, session_id: str) -> None: ...

    async def set_session_title(self, session_id: str, title: str) -> str: ...

    async def session_status(self, session_id: str) -> SessionStatus: ...

    async def prompt(
        self,
        session_id: str,
        contents: Sequence[ContentBlock],
        inserted: Callable[[str], None],
        meta: dict[str, Any] | None,
    ) -> TurnResult | None:
        """Send a prompt; return how its turn ended, or None once the prompt has its place.

        Then `inserted` was told its message id, and a state tells when the work has ended.
        """
        ...

    async def cancel(self, session_id: str) -> None: ...

    async def cancel_tool_call(self, session_id: str, tool_call_id: str) -> None: ...

    async def cancel_terminal(self, session_id: str, terminal_id: str) -> None: ...

    async def set_option(
        self, session_id: str, option: SessionOption, value: str | bool
    ) -> tuple[SessionOption, ...] | None: ...

    async def authenticate(self, method_id: str) -> None: ...

    async def logout(self) -> None: ...

    async def auth_status(self) -> AuthStatus: ...

    async def providers(self) -> tuple[ProviderInfo, ...]: ...

    async def set_provider(
        self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str]
    ) -> None: ...

    async def disable_provider(self, provider_id: str) -> None: ...
