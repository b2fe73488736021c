"""Permission requests: the agent asks the user about a tool call (v1)."""

from __future__ import annotations

from typing import Literal, TypeAlias

from accord.v1.ids import PermissionOptionId, SessionId
from accord.v1.tool_call import ToolCallDetails
from accord.wire.base import Bare, Wire
from accord.wire.method import Method

__all__ = (
    "CancelledPermissionOutcome",
    "PermissionOption",
    "PermissionOptionKind",
    "RequestPermissionOutcome",
    "RequestPermissionRequest",
    "RequestPermissionResponse",
    "SelectedPermissionOutcome",
)

PermissionOptionKind: TypeAlias = Literal[
    "allow_once", "allow_always", "reject_once", "reject_always"
]


class PermissionOption(Wire):
    """An option that the user can select; `kind` is a hint for its appearance."""

    option_id: PermissionOptionId
    name: str
    kind: PermissionOptionKind


class RequestPermissionRequest(Wire):
    """Asks the user about a tool call, which may be new to the client."""

    session_id: SessionId
    tool_call: ToolCallDetails
    options: list[PermissionOption]


class CancelledPermissionOutcome(Bare, tag_field="outcome", tag="cancelled"):
    """The turn was cancelled before the user answered."""


class SelectedPermissionOutcome(Wire, tag_field="outcome", tag="selected"):
    """The user selected an option."""

    option_id: PermissionOptionId


RequestPermissionOutcome: TypeAlias = CancelledPermissionOutcome | SelectedPermissionOutcome


class RequestPermissionResponse(Wire):
    """The outcome of a permission request."""

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
