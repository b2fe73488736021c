"""JSON-RPC 2.0 messages as they are decoded, and what becomes of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

__all__ = (
    "CancelRequest",
    "Event",
    "Message",
    "RequestId",
    "Response",
    "UnexpectedMessage",
)

RequestId: TypeAlias = int | str | None


class Message(Struct, gc=False):
    """One envelope; `params`, `result` and `error` stay undecoded.

    With a method and an id it is a request, without the id a notification.
    """

    jsonrpc: Literal["2.0"]
    id: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | str | None | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class Response(Struct):
    """The answer to a request of ours; `call` is what we attached to it."""

    call: Any
    result: Raw | None = None
    code: int = 0
    message: str | None = None  # None: the request succeeded
    data: Any = None
    fault: str | None = None  # the response breaks the protocol; nothing else of it counts


class CancelRequest(Struct):
    """The peer withdraws a request of its own that we have not answered yet."""

    id: RequestId


class UnexpectedMessage(Struct):
    """Something that asks nothing and answers nothing; never answered.

    `level` is how loud it should be logged, as `logging` has it.
    """

    reason: str
    level: int = 10


Event: TypeAlias = Message | Response | CancelRequest | UnexpectedMessage
