"""The interface by which sessions call the client, implemented for each version."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from accord.agent.updates import MessageRole, ToolCallUpdate, TurnEnded, Update
from accord.types.content import ContentBlock
from accord.types.permission import PermissionOption
from accord.types.session import Implementation, SelectOption, SessionOption, StopReason
from accord.version import ProtocolVersion

if TYPE_CHECKING:
    from accord.agent.background import Background
    from accord.agent.text_stream import TextStream
    from accord.errors import RequestError
    from accord.mcp.consumer import McpOutcome
    from accord.types.session import AuthAccount, AuthState
    from accord.wire.shared import MessageMcpRequest


class PermissionQuestion(Struct, frozen=True, kw_only=True):
    """A permission request for a tool call."""

    title: str
    description: str | None
    options: tuple[PermissionOption, ...]
    tool: ToolCallUpdate


class ClientAdapter(ABC):
    """Calls the client in its version."""

    version: ProtocolVersion
    capabilities: Any  # of the client, in its version's type
    client_info: Implementation | None = None
    # A permission request with the outcome `cancelled` means that the turn is cancelled.
    cancelled_permission_cancels_turn: bool = False

    @abstractmethod
    def send_message_chunk(
        self,
        session_id: str,
        role: MessageRole,
        message_id: str,
        content: ContentBlock,
        meta: dict[str, Any] | None = None,
    ) -> Coroutine[Any, Any, None]:
        """Send a chunk of a message; waits while the client reads slower."""

    def text_stream(  # the base class has none: every chunk takes `send_message_chunk`
        self, session_id: str, role: MessageRole, message_id: str
    ) -> TextStream | None:
        """Return what sends the text chunks of a message faster, if this adapter can."""
        return None

    @abstractmethod
    async def send_update(
        self, session_id: str, update: Update, meta: dict[str, Any] | None = None
    ) -> None:
        """Send an update, in one or more notifications, each with the `_meta`."""

    @abstractmethod
    async def request_permission(self, session_id: str, question: PermissionQuestion) -> str | None:
        """Ask the user; return the id of the chosen option, None if none was chosen."""

    async def send_state(  # noqa: B027  # version 1 has no states
        self, session_id: str, state: str, background: Background
    ) -> None:
        """Send the state of a session and its background work, if the version has states."""

    async def send_turn_end(  # noqa: B027  # as above
        self,
        session_id: str,
        ended: TurnEnded,
        background: Background,
        meta: dict[str, Any] | None = None,
    ) -> None:
        """Send the end of a turn and its stop reason, if the version has states."""

    # What the client supports.

    reads_files: bool = False
    writes_files: bool = False
    has_terminals: bool = False
    shows_terminals: bool = False  # the agent's own

    # Without these, the content is shown in another way or not at all.

    shows_notices: bool = True
    shows_subagents: bool = False

    async def read_file(
        self, session_id: str, path: str, line: int | None, limit: int | None
    ) -> str:
        """Return the text of a file in the client, including unsaved changes."""
        raise NotImplementedError

    async def write_file(self, session_id: str, path: str, text: str) -> None:
        """Replace the text of a file in the client."""
        raise NotImplementedError

    async def create_terminal(
        self,
        session_id: str,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        output_bytes: int,
    ) -> str:
        """Start a command in the client; return the id of its terminal."""
        raise NotImplementedError

    async def terminal_exit(
        self, session_id: str, terminal_id: str
    ) -> tuple[int | None, str | None]:
        """Wait for a command in the client; return its exit code or signal."""
        raise NotImplementedError

    async def terminal_output(self, session_id: str, terminal_id: str) -> tuple[str, bool]:
        """Return the output of a terminal in the client, and whether it is truncated."""
        raise NotImplementedError

    async def kill_terminal(self, session_id: str, terminal_id: str) -> None:
        """Kill a command in the client."""
        raise NotImplementedError

    async def release_terminal(self, session_id: str, terminal_id: str) -> None:
        """Release a terminal in the client."""
        raise NotImplementedError

    @abstractmethod
    async def elicit_form(
        self, session_id: str, message: str, schema: dict[str, Any], tool_id: str | None
    ) -> dict[str, Any] | None:
        """Ask the user to fill in a form; return the values, None if they do not."""

    @abstractmethod
    async def elicit_url(
        self, session_id: str, message: str, url: str, elicitation_id: str, tool_id: str | None
    ) -> bool:
        """Ask the user to open a web page; return whether they agreed."""

    @abstractmethod
    async def complete_elicitation(self, elicitation_id: str) -> None:
        """Report that an elicitation by URL is complete."""

    @abstractmethod
    async def call_extension(self, method: str, params: Any) -> Any:
        """Send an extension request; return its result as JSON."""

    @abstractmethod
    async def notify_extension(self, method: str, params: Any) -> None:
        """Send an extension notification."""

    async def message_mcp(
        self, request: MessageMcpRequest, settled: Callable[[], None]
    ) -> McpOutcome:
        """Send a request to an MCP server of the client; return its outcome.

        `settled` is called for the response, before any later message is handled.
        """
        raise NotImplementedError

    @abstractmethod
    async def send_auth_status(self, state: AuthState, accounts: Sequence[AuthAccount]) -> None:
        """Send the auth status, if both sides support it."""

    @abstractmethod
    def cancel_prompts(self, session_id: str) -> None:
        """Cancel the prompt requests of a session, including queued ones."""

    def drop_session(self, session_id: str) -> None:  # noqa: B027  # version 2 has no such state
        """Drop the state of a session that has ended."""

    @property
    @abstractmethod
    def is_closed(self) -> bool:
        """Whether the client has disconnected."""

    @abstractmethod
    def is_clients_error(self, error: RequestError) -> bool:
        """Return whether an error is the client's response to a request of the agent."""

    @abstractmethod
    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine, at most until the connection ends."""

    @abstractmethod
    def displayable_options(self, options: tuple[SessionOption, ...]) -> tuple[SessionOption, ...]:
        """Return the options that the client supports."""

    def stop_reason(self, reason: StopReason) -> str:
        """Return a stop reason in terms of the version."""
        return reason


def mode_of(options: tuple[SessionOption, ...]) -> SelectOption | None:
    """Return the option of category `mode`."""
    for option in options:
        if isinstance(option, SelectOption) and option.category == "mode":
            return option
    return None
