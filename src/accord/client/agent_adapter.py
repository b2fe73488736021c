"""What a client does with an agent, whatever version the two speak."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from accord.client.event_stream import Read
from accord.client.events import StateChanged
from accord.errors import RequestError
from accord.types.auth import LoginStatus, Provider
from accord.types.content import Content
from accord.types.mcp import McpServer
from accord.types.session import Command, Info, SessionOption, StopReason, SystemPrompt, Tokens
from accord.version import ProtocolVersion

__all__ = (
    "AuthMethod",
    "Dialect",
    "Ended",
    "Opened",
    "Page",
    "SessionListing",
    "SessionStatus",
    "Setup",
)


class Setup(Struct, frozen=True, kw_only=True):
    """Where a session works and with what; all paths are absolute."""

    cwd: str
    roots: tuple[str, ...] = ()  # besides `cwd`
    mcp_servers: tuple[McpServer, ...] = ()
    system_prompt: SystemPrompt | None = None
    # Where all of them lead, found out before the agent knew of them; None: not resolved yet.
    real_roots: tuple[str, ...] | None = None

    @property
    def all_roots(self) -> tuple[str, ...]:
        """The directories that files may be in; `cwd` is the first (R-SESS-04)."""
        return (self.cwd, *self.roots)


class Opened(Struct, frozen=True, kw_only=True):
    """A session is open; None where the agent did not say."""

    session_id: str
    options: tuple[SessionOption, ...] | None = None
    commands: tuple[Command, ...] | None = None


class SessionListing(Struct, frozen=True, kw_only=True):
    """A session that the agent has stored; `updated_at` is RFC 3339."""

    id: str
    cwd: str
    roots: tuple[str, ...] = ()
    title: str | None = None
    updated_at: str | None = None
    archived: bool | None = None


class SessionStatus(Struct, frozen=True, kw_only=True):
    """Whether the agent has a session in memory, and what it does there.

    It may have changed already; no `state` does not mean idle.
    """

    open: bool
    state: StateChanged | None = None


class Page(Struct, frozen=True):
    """Some of the sessions; with a cursor there are more."""

    sessions: tuple[SessionListing, ...]
    next_cursor: str | None


class AuthMethod(Struct, frozen=True, kw_only=True):
    """A way to log in; `terminal`: by running the agent's command with `args` and `env` added."""

    id: str
    name: str
    description: str | None = None
    terminal: bool = False
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()


class Ended(Struct, frozen=True, kw_only=True):
    """A turn has ended, and why."""

    stop_reason: StopReason
    tokens: Tokens | None = None
    error: RequestError | None = None
    meta: dict[str, Any] | None = None


class Dialect(Protocol):
    """One version, spoken."""

    version: ProtocolVersion
    read: Read
    wire: Any  # the version's RemoteAgent
    echoes_prompts: bool  # the agent itself tells of the prompt and of its own state

    @property
    def info(self) -> Info: ...

    @property
    def auth_methods(self) -> tuple[AuthMethod, ...]: ...

    def offers(self, call: str) -> bool: ...

    def takes(self, kind: str) -> bool: ...

    async def new_session(self, setup: Setup) -> Opened: ...

    async def load_session(
        self, session_id: str, setup: Setup, *, replay: bool, opened: Callable[[Any], None]
    ) -> Opened:
        """Open a stored session; `opened` is called before any later message is handled."""
        ...

    async def fork_session(self, session_id: str, setup: Setup) -> Opened: ...

    async def list_sessions(
        self, cwd: str | None, cursor: str | None, archived: str | None
    ) -> Page: ...

    async def close_session(self, session_id: str) -> None: ...

    async def delete_session(self, session_id: str) -> None: ...

    async def archive_session(self, session_id: str) -> None: ...

    async def unarchive_session(self, session_id: str) -> None: ...

    async def rename_session(self, session_id: str, title: str) -> str: ...

    async def session_status(self, session_id: str) -> SessionStatus: ...

    async def prompt(
        self,
        session_id: str,
        contents: Sequence[Content],
        inserted: Callable[[str], None],
        meta: dict[str, Any] | None,
    ) -> Ended | None:
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

    async def auth_status(self) -> LoginStatus: ...

    async def providers(self) -> tuple[Provider, ...]: ...

    async def set_provider(
        self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str]
    ) -> None: ...

    async def disable_provider(self, provider_id: str) -> None: ...
