"""Requests of this side that wait for a response, and how they are resolved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import Raw, Struct

from accord.connection.lanes import LaneHolder
from accord.errors import AccordError, DecodeError, RemoteProtocolError, RequestError
from accord.jsonrpc.message import Response
from accord.text import lenient_json


class PendingCall(Struct):  # tracked by gc: exceptions refer back to it
    """A request of this side that waits for its response."""

    method: str
    future: asyncio.Future[Any]
    decode: Callable[[bytes | Raw], Any]
    session: Any
    caller: LaneHolder | None  # the handler that waits for it
    on_error: Callable[[], None] | None = None  # called before any later message is handled


def reject(call: PendingCall, error: AccordError) -> None:
    """Make a call raise an error."""
    if not call.future.done():
        call.future.set_exception(error)
        call.future.exception()  # no warning if it is no longer awaited


def resolve(answer: Response) -> None:
    """Complete a call with its response."""
    call: PendingCall = answer.call
    if call.future.done():
        return
    is_error = answer.fault is not None or answer.message is not None
    if is_error and call.on_error is not None:
        call.on_error()
    if answer.fault is not None:
        call.future.set_exception(RemoteProtocolError(f"{call.method}: {answer.fault}"))
        return
    if answer.message is not None:
        call.future.set_exception(RequestError.of(answer.code, answer.message, answer.data))
        return
    try:
        value = call.decode(answer.result)  # type: ignore[arg-type]  # present unless it is an error
    except DecodeError as exc:
        raw = lenient_json.loads(bytes(answer.result or b"null"))
        error = RemoteProtocolError(f"The result of {call.method} does not fit: {exc}", raw=raw)
        call.future.set_exception(error)
    except Exception as exc:  # noqa: BLE001  # raised by the call
        call.future.set_exception(exc)
    else:
        call.future.set_result(value)
