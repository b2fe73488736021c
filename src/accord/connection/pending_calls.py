"""The requests of ours that wait for an answer, and how one comes to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import Raw, Struct

from accord.connection.lanes import LaneHolder
from accord.errors import AccordError, DecodeError, RemoteProtocolError, RequestError
from accord.jsonrpc.message import Response
from accord.text import lenient_json

__all__ = ("PendingCall", "reject", "resolve")


class PendingCall(Struct):  # an error and the frames that it came through lead back here
    """A request of ours that waits for its answer."""

    method: str
    future: asyncio.Future[Any]
    decode: Callable[[bytes | Raw], Any]
    session: Any
    caller: LaneHolder | None  # the handler that waits for it


def reject(call: PendingCall, error: AccordError) -> None:
    """Raise an error where the call is awaited."""
    if not call.future.done():
        call.future.set_exception(error)
        call.future.exception()  # whoever does not await it any more is not warned


def resolve(answer: Response) -> None:
    """Give a call its answer."""
    call: PendingCall = answer.call
    if call.future.done():
        return
    if answer.fault is not None:
        call.future.set_exception(RemoteProtocolError(f"{call.method}: {answer.fault}"))
        return
    if answer.message is not None:
        call.future.set_exception(RequestError.of(answer.code, answer.message, answer.data))
        return
    try:
        value = call.decode(answer.result)  # type: ignore[arg-type]  # there without an error
    except DecodeError as exc:
        raw = lenient_json.loads(bytes(answer.result or b"null"))
        error = RemoteProtocolError(f"The result of {call.method} does not fit: {exc}", raw=raw)
        call.future.set_exception(error)
    except Exception as exc:  # noqa: BLE001  # raised where the call is awaited
        call.future.set_exception(exc)
    else:
        call.future.set_result(value)
