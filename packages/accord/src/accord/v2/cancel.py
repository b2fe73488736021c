"""Cancellation of a request, a session's work, a tool call or a terminal (v2)."""

from __future__ import annotations

from accord.v2.ids import RequestId, SessionId, TerminalId, ToolCallId
from accord.wire.base import Wire
from accord.wire.method import Method

__all__ = (
    "CancelRequestNotification",
    "CancelSessionNotification",
    "CancelTerminalRequest",
    "CancelTerminalResponse",
    "CancelToolCallRequest",
    "CancelToolCallResponse",
)


class CancelRequestNotification(Wire):
    """Cancels a request that this side sent; it still gets a response."""

    request_id: RequestId


class CancelSessionNotification(Wire):
    """Cancels the foreground work of a session and the prompts that it still holds."""

    session_id: SessionId


class CancelToolCallRequest(Wire):
    """Cancels one tool call that advertises it."""

    session_id: SessionId
    tool_call_id: ToolCallId


class CancelToolCallResponse(Wire):
    """The cancel is accepted; a later update of the tool call has the final status."""


class CancelTerminalRequest(Wire):
    """Stops the command of one terminal that advertises it."""

    session_id: SessionId
    terminal_id: TerminalId


class CancelTerminalResponse(Wire):
    """The cancel is accepted; a later update of the terminal has the exit status."""


METHODS: tuple[Method, ...] = (
    Method(
        name="session/cancel",
        call="cancel",
        params=CancelSessionNotification,
        to="agent",
        gate="agent.session",
    ),
    # Needs the capability `cancel` of that very tool call or terminal.
    Method(
        name="tool_call/cancel",
        call="cancel_tool_call",
        params=CancelToolCallRequest,
        result=CancelToolCallResponse,
        to="agent",
    ),
    Method(
        name="terminal/cancel",
        call="cancel_terminal",
        params=CancelTerminalRequest,
        result=CancelTerminalResponse,
        to="agent",
    ),
    Method(
        name="$/cancel_request",
        call="cancel_request",
        params=CancelRequestNotification,
        to="protocol",
    ),
)
