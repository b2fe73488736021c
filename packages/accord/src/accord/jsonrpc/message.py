"""JSON-RPC 2.0 messages as decoded, and the events that they result in."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

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
    """The response to a request of this side; `call` is the object passed to `Peer.request`."""

    call: Any
    result: Raw | None = None
    code: int = 0
    message: str | None = None  # None: the request succeeded
    data: Any = None
    error: Raw | None = None  # the error object as received
    fault: str | None = None  # why the response is invalid; then its other fields do not count


class CancelRequest(Struct):
    """The peer cancels one of its requests that has no response yet."""

    id: RequestId


class UnexpectedMessage(Struct):
    """A message that is neither a request nor a response to one. It gets no response.

    `level` is the level of `logging` to log it with.
    """

    reason: str
    level: int = 10


Event: TypeAlias = Message | Response | CancelRequest | UnexpectedMessage
