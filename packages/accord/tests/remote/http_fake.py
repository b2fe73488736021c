"""An HTTP server whose answers a test decides, and a client that is connected to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from accord.testing import Recorder
from accord.transports.http import HttpTransport, http
from accord.transports.registry import RemoteOptions
from accord_conformance.network import Exchange, RawServer
from event_loop import Changing

END, CUT = b"end of the stream", b"cut the connection"
INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}'
INITIALIZED = b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'

Answer = Callable[[Exchange], Awaitable[None]]


def call(number: int, method: str, session: str | None = None, **params: Any) -> bytes:
    if session is not None:
        params["sessionId"] = session
    return _text({"id": number, "method": method, "params": params})


def notice(method: str, session: str | None = None, **params: Any) -> bytes:
    if session is not None:
        params["sessionId"] = session
    return _text({"method": method, "params": params})


def result(number: int, **fields: Any) -> bytes:
    return _text({"id": number, "result": fields})


def _text(fields: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}, separators=(",", ":")).encode()


def event(frame: bytes) -> bytes:
    return b"data: " + frame + b"\n\n"


class Fake(Changing):
    """A server that accepts everything, unless a test replaces `post`, `get` or `delete`.

    `streams` has what each stream sends; `requests` has all requests in the order of their arrival.
    """

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Exchange] = []
        self.streams: dict[str | None, asyncio.Queue[bytes]] = {}
        self.initialize: Answer = self.initialized
        self.post: Answer = self.accept
        self.get: Answer = self.stream
        self.delete: Answer = self.accept
        self.first_headers: dict[str, str] = {"Acp-Connection-Id": "c-1"}
        self.url = ""

    async def handle(self, exchange: Exchange) -> None:
        self.requests.append(exchange)
        self.changed.set()
        match exchange.method:
            case "POST" if b'"initialize"' in exchange.body:
                await self.initialize(exchange)
            case "POST":
                await self.post(exchange)
            case "GET":
                await self.get(exchange)
            case _:
                await self.delete(exchange)

    async def initialized(self, exchange: Exchange) -> None:
        kind = {"Content-Type": "application/json"}
        await exchange.respond(200, INITIALIZED, {**kind, **self.first_headers})

    async def accept(self, exchange: Exchange) -> None:
        await exchange.respond(202)

    def send(self, session: str | None, *parts: bytes) -> None:
        """Send parts on a stream; `END` ends it, `CUT` cuts it off."""
        for part in parts:
            self.streams.setdefault(session, asyncio.Queue()).put_nowait(part)

    async def stream(self, exchange: Exchange) -> None:
        session = exchange.header("Acp-Session-Id")
        parts = self.streams.setdefault(session, asyncio.Queue())
        await exchange.start_stream({"Content-Type": "text/event-stream"})
        watching = asyncio.ensure_future(exchange.watch())
        getting = None
        try:
            while not watching.done():
                getting = asyncio.ensure_future(parts.get())
                await asyncio.wait((watching, getting), return_when=asyncio.FIRST_COMPLETED)
                if not getting.done():
                    break
                part = getting.result()
                if part == CUT:
                    exchange.abort()
                    return
                if part == END:
                    await exchange.end()
                    return
                await exchange.send(part)
        finally:
            if getting is not None:
                getting.cancel()
            watching.cancel()
            await asyncio.wait([watching])

    def posts(self) -> list[dict[str, Any]]:
        return [json.loads(one.body) for one in self.requests if one.method == "POST"]

    def methods(self) -> list[str]:
        """Return each request as a line: GET and its stream, POST and its message."""
        lines: list[str] = []
        for one in self.requests:
            session = one.header("Acp-Session-Id")
            what = json.loads(one.body).get("method", "answer") if one.body else ""
            lines.append(" ".join(word for word in (one.method, what, session) if word))
        return lines


@asynccontextmanager
async def fake() -> AsyncGenerator[Fake, None]:
    server = Fake()
    async with RawServer(server.handle) as raw:
        server.url = f"http://127.0.0.1:{raw.port}"
        yield server
    assert not raw.errors, raw.errors


@asynccontextmanager
async def started(
    url: str, options: RemoteOptions | None = None, **settings: Any
) -> AsyncGenerator[tuple[HttpTransport, Recorder], None]:
    transport = http(url, options, **settings)()
    assert isinstance(transport, HttpTransport)
    heard = Recorder()
    await transport.start(heard)
    try:
        yield transport, heard
    finally:
        async with asyncio.timeout(20):
            await transport.aclose()


@asynccontextmanager
async def connected(
    url: str, options: RemoteOptions | None = None, **settings: Any
) -> AsyncGenerator[tuple[HttpTransport, Recorder], None]:
    """Connect; the answer to `initialize` is not in the record."""
    async with started(url, options, **settings) as (transport, heard):
        transport.write([INITIALIZE])
        await heard.until(lambda: bool(heard.frames))
        assert heard.frames.pop() == INITIALIZED
        yield transport, heard
