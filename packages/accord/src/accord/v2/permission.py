"""Permission requests: the agent asks the user before it acts (v2)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from accord.v2.ids import AbsolutePath, PermissionOptionId, SessionId, TerminalId, ToolCallId
from accord.v2.tool_call import ToolCallDetails
from accord.wire.base import Lenient, Open, OpenEnum, Wire
from accord.wire.method import Method

__all__ = (
    "CancelledPermissionOutcome",
    "CommandPermissionSubject",
    "PermissionOption",
    "PermissionOptionKind",
    "RequestPermissionOutcome",
    "RequestPermissionRequest",
    "RequestPermissionResponse",
    "RequestPermissionSubject",
    "SelectedPermissionOutcome",
    "ToolCallPermissionSubject",
)

PermissionOptionKind: TypeAlias = OpenEnum[
    Literal["allow_once", "allow_always", "reject_once", "reject_always"]
]


class PermissionOption(Wire):
    """An option that the user can select."""

    option_id: PermissionOptionId
    name: str
    kind: PermissionOptionKind


class ToolCallPermissionSubject(Wire, tag_field="type", tag="tool_call"):
    """The request is about a tool call; `tool_call` is applied like an update."""

    tool_call: ToolCallDetails


class CommandPermissionSubject(Wire, tag_field="type", tag="command"):
    """The request is about a command."""

    command: str
    cwd: AbsolutePath
    tool_call_id: Lenient[ToolCallId | None] = None
    terminal_id: Lenient[TerminalId | None] = None


RequestPermissionSubject: TypeAlias = Open[ToolCallPermissionSubject | CommandPermissionSubject]


class RequestPermissionRequest(Wire):
    """Asks the user to select one of the options."""

    session_id: SessionId
    title: str
    description: Lenient[str | None] = None
    subject: RequestPermissionSubject | None = None
    options: Annotated[list[PermissionOption], Meta(min_length=1)]


class CancelledPermissionOutcome(Wire, tag_field="outcome", tag="cancelled"):
    """The request was cancelled."""


class SelectedPermissionOutcome(Wire, tag_field="outcome", tag="selected"):
    """The user selected an option."""

    option_id: PermissionOptionId


# An outcome that is not known is never an approval.
RequestPermissionOutcome: TypeAlias = Open[CancelledPermissionOutcome | SelectedPermissionOutcome]


class RequestPermissionResponse(Wire):
    """The user's decision."""

    outcome: RequestPermissionOutcome


METHODS: tuple[Method, ...] = (
    Method(
        name="session/request_permission",
        call="request_permission",
        params=RequestPermissionRequest,
        result=RequestPermissionResponse,
        to="client",
    ),
)
