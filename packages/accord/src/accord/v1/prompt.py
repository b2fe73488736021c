"""Turns: a prompt, its end, and its cancellation (v1)."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from accord.v1.content import ContentBlock
from accord.v1.ids import SessionId
from accord.wire.base import Lenient, UInt64, Unstable, Wire
from accord.wire.method import Method

__all__ = (
    "CancelNotification",
    "PromptRequest",
    "PromptResponse",
    "StopReason",
    "Usage",
)

StopReason: TypeAlias = Literal[
    "end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"
]


class PromptRequest(Wire):
    """The user's prompt; the response arrives when the turn has ended."""

    session_id: SessionId
    prompt: list[ContentBlock]


class Usage(Wire):
    """Counts of tokens; v1 does not define for which span of work (A-47)."""

    __unstable__: ClassVar[bool] = True

    total_tokens: UInt64
    input_tokens: UInt64
    output_tokens: UInt64
    thought_tokens: Lenient[UInt64 | None] = None
    cached_read_tokens: Lenient[UInt64 | None] = None
    cached_write_tokens: Lenient[UInt64 | None] = None


class PromptResponse(Wire):
    """The end of the turn, with its stop reason."""

    stop_reason: StopReason
    usage: Unstable[Lenient[Usage | None]] = None


class CancelNotification(Wire):
    """Cancels the running turn; its prompt is answered with the stop reason cancelled."""

    session_id: SessionId


METHODS: tuple[Method, ...] = (
    Method(
        name="session/prompt",
        call="prompt",
        params=PromptRequest,
        result=PromptResponse,
        to="agent",
    ),
    Method(
        name="session/cancel",
        call="cancel",
        params=CancelNotification,
        to="agent",
    ),
)
