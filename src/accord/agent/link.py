"""The client of one connection, as sessions speak to it: what each version has to render."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any

from msgspec import Struct

from accord.agent.reports import MessageRole, Report, ToolReport
from accord.model.content import Content
from accord.model.permission import PermissionOption
from accord.model.session import Info, Select, SessionOption, StopReason
from accord.version import ProtocolVersion

__all__ = ("Link", "Question", "mode_of")


class Question(Struct, frozen=True, kw_only=True):
    """What to ask the user before a tool call goes on."""

    title: str
    description: str | None
    options: tuple[PermissionOption, ...]
    tool: ToolReport


class Link(ABC):
    """Says things to the client in the version that it speaks."""

    version: ProtocolVersion
    client_info: Info | None = None
    # A permission request that is answered `cancelled` means that the turn is.
    unanswered_cancels: bool = False

    @abstractmethod
    def said(
        self, session_id: str, role: MessageRole, message_id: str, content: Content
    ) -> Coroutine[Any, Any, None]:
        """Send one more piece of a message; waits while the client reads slower."""

    @abstractmethod
    async def show(self, session_id: str, report: Report) -> None:
        """Send a report, in as many messages as it takes."""

    @abstractmethod
    async def ask(self, session_id: str, question: Question) -> str | None:
        """Return the id of the option that the user chose; None if none was."""

    async def working(self, session_id: str) -> None:  # noqa: B027  # v1 has no word for it
        """Say that a turn works, where the version says so."""

    async def waiting(self, session_id: str) -> None:  # noqa: B027  # as above
        """Say that nothing goes on until the user acts, where the version says so."""

    @abstractmethod
    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something as long as the connection lives."""

    @abstractmethod
    def shown(self, options: tuple[SessionOption, ...]) -> tuple[SessionOption, ...]:
        """Return the options that the client can show."""

    def stop_reason(self, reason: StopReason) -> str:
        """Return a stop reason that the version has."""
        return reason


def mode_of(options: tuple[SessionOption, ...]) -> Select | None:
    """Return the option that is the mode of the session."""
    for option in options:
        if isinstance(option, Select) and option.category == "mode":
            return option
    return None
