"""A connection and a raw peer that a test scripts, or two connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from msgspec import UNSET, Struct

from accord.connection.connection import Connection
from accord.connection.limits import Limits
from accord.connection.routes import Context, Route, Routes, not_served
from accord.jsonrpc.message import RequestId
from accord.transports.base import Frame, Transport
from accord.transports.memory import pair
from accord.wire.base import Wire
from accord.wire.codec import decoder

# The times are short: a test waits for the clock only to show that no further message arrives.
QUICK = Limits(eof_grace_s=0.01, drain_s=0.01, close_timeout_s=1)

any_json = decoder(Any)


class Params(Wire):
    """Params of a method with a session."""

    session_id: str | None = None
    n: int = 0


class RawPeer:
    """A peer scripted by a test: it sends what the test says and records what it receives."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.inbox: asyncio.Queue[Any] = asyncio.Queue()
        self.reads: list[int] = []  # the number of messages in each read
        self.ended = asyncio.Event()

    def frames_received(self, frames: Sequence[Frame]) -> None:
        self.reads.append(len(frames))
        for frame in frames:
            self.inbox.put_nowait(json.loads(frame))

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        raise AssertionError("a frame over the limit was sent")

    def eof_received(self, error: Exception | None) -> None:
        self.ended.set()

    def writable(self) -> None:
        pass

    def send(self, *messages: Any) -> None:
        """Send messages, or raw bytes, in one write."""
        self.transport.write(
            [m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages]
        )

    def ask(self, request_id: Any, method: str, params: Any = UNSET) -> None:
        self.send(request(request_id, method, params))

    def tell(self, method: str, params: Any = UNSET) -> None:
        self.send(notification(method, params))

    def answer(self, request_id: Any, result: Any) -> None:
        self.send(success(request_id, result))

    async def get(self) -> Any:
        """Return the next received message."""
        return await self.inbox.get()

    async def result_of(self, request_id: Any, method: str, params: Any = UNSET) -> Any:
        """Send a request, and return the result of the next response."""
        self.ask(request_id, method, params)
        answer = await self.get()
        assert answer["id"] == request_id, answer
        return answer["result"]

    async def error_of(self, request_id: Any, method: str, params: Any = UNSET) -> Any:
        """Send a request, and return the error of the next response."""
        self.ask(request_id, method, params)
        answer = await self.get()
        assert answer["id"] == request_id, answer
        return answer["error"]

    async def hang_up(self) -> None:
        await self.transport.aclose()


def request(request_id: Any, method: str, params: Any = UNSET) -> Any:
    return {"jsonrpc": "2.0", "id": request_id, "method": method} | _with(params)


def notification(method: str, params: Any = UNSET) -> Any:
    return {"jsonrpc": "2.0", "method": method} | _with(params)


def success(request_id: Any, result: Any) -> Any:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def cancel(request_id: Any) -> Any:
    return notification("$/cancel_request", {"requestId": request_id})


def _with(params: Any) -> Any:
    return {} if params is UNSET else {"params": params}


Handler = Callable[..., Any]


def serving(
    *, cancelled: Callable[[], Any] | None = None, tp: Any = Params, **handlers: Handler
) -> Routes:
    """Return routes: handlers `ask_METHOD` serve requests, handlers `tell_METHOD` notifications."""
    tables: dict[str, dict[str, Route]] = {"ask": {}, "tell": {}}
    for name, handler in handlers.items():
        kind, _, method = name.partition("_")
        tables[kind][method] = Route(
            decode=decoder(tp), handler=handler, cancelled_result=cancelled
        )
    return Routes(
        requests=tables["ask"],
        notifications=tables["tell"],
        context=_no_context,
        fallback=not_served,
    )


def _no_context(request_id: RequestId) -> Any:
    return request_id


class Sides(Struct):
    """A connection and its raw peer."""

    ours: Connection
    other: RawPeer


@asynccontextmanager
async def with_raw_peer(
    routes: Routes, *, limits: Limits | None = None, limit_bytes: int | None = None
) -> AsyncGenerator[Sides]:
    """Run a connection with a raw peer."""
    here, there = pair() if limit_bytes is None else pair(limit_bytes=limit_bytes)
    ours, other = Connection(here, limits=limits or QUICK), RawPeer(there)
    await ours.start(routes)
    await there.start(other)
    try:
        yield Sides(ours, other)
    finally:
        await ours.aclose()
        await there.aclose()


@asynccontextmanager
async def two_connections(
    left: Routes,
    right: Routes,
    *,
    limits: Limits | None = None,
    limit_bytes: int = 256 * 1024,
) -> AsyncGenerator[tuple[Connection, Connection]]:
    """Run two connections with each other."""
    here, there = pair(limit_bytes=limit_bytes)
    ours = Connection(here, limits=limits or QUICK), Connection(there, limits=limits or QUICK)
    for connection, routes in zip(ours, (left, right), strict=True):
        await connection.start(routes)
    try:
        yield ours
    finally:
        for connection in ours:
            await connection.aclose()


__all__ = (
    "QUICK",
    "Context",
    "Params",
    "RawPeer",
    "Sides",
    "any_json",
    "cancel",
    "notification",
    "request",
    "serving",
    "success",
    "two_connections",
    "with_raw_peer",
)
