"""The client of one connection, as sessions speak to it: what each version has to render."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
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
    from accord.types.auth import AuthAccount, AuthState

__all__ = ("ClientAdapter", "PermissionQuestion", "mode_of")


class PermissionQuestion(Struct, frozen=True, kw_only=True):
    """What to ask the user before a tool call goes on."""

    title: str
    description: str | None
    options: tuple[PermissionOption, ...]
    tool: ToolCallUpdate


class ClientAdapter(ABC):
    """Says things to the client in the version that it speaks."""

    version: ProtocolVersion
    capabilities: Any  # of the client, as the version has them
    client_info: Implementation | None = None
    # A permission request that is answered `cancelled` means that the turn is.
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
        """Send one more piece of a message; waits while the client reads slower."""

    def text_stream(  # the base class has none: every chunk takes `send_message_chunk`
        self, session_id: str, role: MessageRole, message_id: str
    ) -> TextStream | None:
        """Return what sends the text chunks of a message faster, if this adapter can."""
        return None

    @abstractmethod
    async def send_update(self, session_id: str, report: Update) -> None:
        """Send a report, in as many messages as it takes."""

    @abstractmethod
    async def request_permission(self, session_id: str, question: PermissionQuestion) -> str | None:
        """Return the id of the option that the user chose; None if none was."""

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

    # Files and terminals that the client has, and forms that it shows.

    reads_files: bool = False
    writes_files: bool = False
    has_terminals: bool = False
    shows_terminals: bool = False  # those of the agent

    # What is shown in another way, or not at all, where this is false.

    shows_notices: bool = True
    shows_subagents: bool = False

    async def read_file(
        self, session_id: str, path: str, line: int | None, limit: int | None
    ) -> str:
        """Return the text of a file of the client, unsaved changes included."""
        raise NotImplementedError

    async def write_file(self, session_id: str, path: str, text: str) -> None:
        """Replace the text of a file of the client."""
        raise NotImplementedError

    async def create_terminal(
        self,
        session_id: str,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        output_bytes: int,
    ) -> str:
        """Start a command in the client and return the id of its terminal."""
        raise NotImplementedError

    async def terminal_exit(
        self, session_id: str, terminal_id: str
    ) -> tuple[int | None, str | None]:
        """Return the exit code or the signal of a command of the client once it has ended."""
        raise NotImplementedError

    async def terminal_output(self, session_id: str, terminal_id: str) -> tuple[str, bool]:
        """Return the output of a terminal of the client, and whether its beginning is cut."""
        raise NotImplementedError

    async def kill_terminal(self, session_id: str, terminal_id: str) -> None:
        """End a command of the client."""
        raise NotImplementedError

    async def release_terminal(self, session_id: str, terminal_id: str) -> None:
        """Free a terminal of the client."""
        raise NotImplementedError

    @abstractmethod
    async def elicit_form(
        self, session_id: str, message: str, schema: dict[str, Any], tool_id: str | None
    ) -> dict[str, Any] | None:
        """Let the user fill in a form and return it; None if they do not."""

    @abstractmethod
    async def elicit_url(
        self, session_id: str, message: str, url: str, elicitation_id: str, tool_id: str | None
    ) -> bool:
        """Ask the user to open a web page; return whether they agreed."""

    @abstractmethod
    async def complete_elicitation(self, elicitation_id: str) -> None:
        """Say that what was asked for on a web page is done."""

    @abstractmethod
    async def call_extension(self, method: str, params: Any) -> Any:
        """Send an extension request; return its result as JSON."""

    @abstractmethod
    async def notify_extension(self, method: str, params: Any) -> None:
        """Send an extension notification."""

    @abstractmethod
    async def send_auth_status(self, state: AuthState, accounts: Sequence[AuthAccount]) -> None:
        """Say who is logged in, if that was offered."""

    @abstractmethod
    def cancel_prompts(self, session_id: str) -> None:
        """Cancel the prompts of a session, those that are held too."""

    def drop_session(self, session_id: str) -> None:  # noqa: B027  # v2 keeps nothing of sessions
        """Drop what is kept for a session: it has ended."""

    @property
    @abstractmethod
    def is_closed(self) -> bool:
        """Whether the client has hung up."""

    @abstractmethod
    def is_clients_error(self, error: RequestError) -> bool:
        """Return whether the client has answered a request of the agent with this error."""

    @abstractmethod
    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something as long as the connection lives."""

    @abstractmethod
    def displayable_options(self, options: tuple[SessionOption, ...]) -> tuple[SessionOption, ...]:
        """Return the options that the client can show."""

    def stop_reason(self, reason: StopReason) -> str:
        """Return a stop reason that the version has."""
        return reason


def mode_of(options: tuple[SessionOption, ...]) -> SelectOption | None:
    """Return the option that is the mode of the session."""
    for option in options:
        if isinstance(option, SelectOption) and option.category == "mode":
            return option
    return None
