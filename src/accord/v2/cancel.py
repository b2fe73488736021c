"""Asking to stop: a request, a session's work, one tool call, one terminal (v2)."""

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
    """Asks the peer to give up a request that this side sent; it is answered all the same."""

    request_id: RequestId


class CancelSessionNotification(Wire):
    """Asks to stop the foreground work of a session and the prompts it still holds."""

    session_id: SessionId


class CancelToolCallRequest(Wire):
    """Asks to stop one tool call that offers it."""

    session_id: SessionId
    tool_call_id: ToolCallId


class CancelToolCallResponse(Wire):
    """Accepted; the proof is an update of the tool call with a final status."""


class CancelTerminalRequest(Wire):
    """Asks to stop the command of one terminal that offers it."""

    session_id: SessionId
    terminal_id: TerminalId


class CancelTerminalResponse(Wire):
    """Accepted; the proof is an update of the terminal with an exit status."""


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
