"""What only the listener of `accord serve` does: limits of time and size, and refusals."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from priority.priority import MissingStreamError, PriorityTree
from websockets.asyncio.client import connect as ws_connect
from websockets.exceptions import ConnectionClosed

import accord
from accord import Agent, Turn
from accord.remote.access import ConnectionLimits
from accord.remote.asgi_socket import handshake_of
from accord.remote.listener import _PriorityTree
from accord.testing import Recorder
from accord.transports.base import HIGH_BYTES, Transport
from remote.servers import listener
from requirement import requirement

KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
UPGRADE = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13"


class Echo(Agent):
    async def prompt(self, turn: Turn) -> None:
        await turn.say(turn.text)


@asynccontextmanager
async def serving(**limits: Any) -> AsyncGenerator[str, None]:
    app = accord.asgi(Echo, insecure=True, limits=ConnectionLimits(**limits))
    async with listener(app) as address:
        yield address


@asynccontextmanager
async def accepting() -> AsyncGenerator[tuple[str, asyncio.Queue[Transport]], None]:
    """Accept every WebSocket connection; give the address, and the transports."""
    accepted: asyncio.Queue[Transport] = asyncio.Queue()
    over = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        handshake = await handshake_of(scope, receive, send, 1000, ConnectionLimits())
        await handshake.accept([])
        accepted.put_nowait(handshake.transport)
        await over.wait()
        await handshake.transport.aclose()

    async with listener(app) as address:
        yield address, accepted
        over.set()


async def exchange(address: str, data: str) -> bytes:
    """Send bytes, and return everything that the server sends until it closes."""
    host, _, port = address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        async with asyncio.timeout(20):
            writer.write(data.encode())
            return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


@requirement("R-WS-11")
async def test_compression_is_not_used_although_the_client_offers_it() -> None:
    async with serving() as address, ws_connect(f"ws://{address}/acp") as connection:
        assert connection.request is not None
        assert connection.response is not None
        assert "permessage-deflate" in connection.request.headers["Sec-WebSocket-Extensions"]
        assert "Sec-WebSocket-Extensions" not in connection.response.headers


HANDSHAKE = f"GET /acp HTTP/1.1\r\nHost: 127.0.0.1\r\n{UPGRADE}\r\n{KEY}\r\n\r\n"
PING = b"\x89\x00"
CLOSE = b"\x88"


@requirement("R-WS-14")
async def test_client_that_answers_no_ping_is_disconnected() -> None:
    async with serving(ping_interval_s=0.05, ping_timeout_s=0.05) as address:
        answer = await exchange(address, HANDSHAKE)
        frames = answer.partition(b"\r\n\r\n")[2]
        reason = b"no answer to a ping"
        close = CLOSE + bytes([2 + len(reason)]) + (1011).to_bytes(2, "big") + reason
        assert frames == PING + close


@requirement("R-WS-14")
async def test_pings_and_their_answers_can_be_switched_off() -> None:
    async with (
        serving(ping_interval_s=0.05, ping_timeout_s=0) as pinging,
        serving(ping_interval_s=0) as silent,
        connection(silent) as (quiet, _),
        connection(pinging) as (reader, _),
    ):
        assert await reader.readexactly(6) == 3 * PING
        quiet.feed_eof()  # ends what has arrived until now
        assert await quiet.read() == b""


@asynccontextmanager
async def connection(
    address: str,
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a WebSocket connection, without a library."""
    host, _, port = address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        async with asyncio.timeout(20):
            writer.write(HANDSHAKE.encode())
            assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
            yield reader, writer
    finally:
        writer.close()
        await writer.wait_closed()


@requirement("R-WS-15")
async def test_request_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accord.remote.listener.HEAD_S", 0.05)
    async with serving() as address:
        assert await exchange(address, "") == b""
        assert await exchange(address, f"GET /acp HTTP/1.1\r\n{UPGRADE}\r\n") == b""


REQUESTS = [
    (f"GET /acp HTTP/1.1\r\nHost: 127.0.0.1\r\n{UPGRADE}\r\n\r\n", b"400"),
    (
        f"GET /acp HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n{KEY}\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 12\r\n\r\n",
        b"400",
    ),
    (f"GET /other HTTP/1.1\r\nHost: 127.0.0.1\r\n{UPGRADE}\r\n{KEY}\r\n\r\n", b"404"),
    (f"GET /acp HTTP/1.1\r\nHost: evil.example\r\n{UPGRADE}\r\n{KEY}\r\n\r\n", b"421"),
    (f"GET /acp HTTP/1.1\r\n{UPGRADE}\r\n{KEY}\r\n\r\n", b"421"),
    (
        f"GET /acp HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://a\r\nOrigin: http://b\r\n"
        f"{UPGRADE}\r\n{KEY}\r\n\r\n",
        b"403",
    ),
    (
        f"GET /other HTTP/1.1\r\nHost: 127.0.0.1\r\nX: \xff\r\n{UPGRADE}\r\n{KEY}\r\n\r\n",
        b"404",
    ),
    (f"GET /acp HTTP/1.1\r\n{'x: y' * 5000}\r\n{UPGRADE}\r\n\r\n", b"431"),
    ("GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", b"200"),
    (f"POST /acp HTTP/1.1\r\nHost: 127.0.0.1\r\n{UPGRADE}\r\n\r\n", b"4"),
]


async def test_requests_are_answered() -> None:
    async with serving() as address:
        for request_text, status in REQUESTS:
            answer = await exchange(address, request_text)
            assert answer.startswith(b"HTTP/1.1 " + status), answer


async def test_application_that_fails_before_it_accepts_is_a_status() -> None:
    async def fail(scope: Any, receive: Any, send: Any) -> None:
        raise ValueError("a secret of the server")

    text = f"GET /acp HTTP/1.1\r\nHost: 127.0.0.1\r\n{UPGRADE}\r\n{KEY}\r\n\r\n"
    async with listener(fail) as address:
        answer = await exchange(address, text)
    assert answer.startswith(b"HTTP/1.1 500")
    assert b"secret" not in answer


@requirement("R-WS-13")
async def test_message_of_a_client_is_limited() -> None:
    heard = Recorder()
    async with (
        accepting() as (address, accepted),
        ws_connect(f"ws://{address}", compression=None) as connection,
    ):
        await (await accepted.get()).start(heard)
        await connection.send("x" * 1000)
        await connection.send("y" * 1001)
        with pytest.raises(ConnectionClosed):
            await connection.recv()
        assert connection.close_code == 1009
        assert heard.frames == [b"x" * 1000]
        assert "code 1009" in str(heard.ends[0])


@requirement("R-WS-02")
async def test_what_a_client_sends_with_the_handshake_is_not_lost() -> None:
    initialize = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": 1, "clientCapabilities": {}},
    }
    payload = json.dumps(initialize).encode()
    message = bytes((0x81, 0x80 | 126, 0, len(payload), 0, 0, 0, 0)) + payload
    request = f"GET /acp HTTP/1.1\r\nHost: 127.0.0.1\r\n{UPGRADE}\r\n{KEY}\r\n\r\n".encode()
    async with serving() as address:
        host, _, port = address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(request + message)
        async with asyncio.timeout(20):
            await reader.readuntil(b'"protocolVersion":1')
        writer.close()
        await writer.wait_closed()


@requirement("R-WS-14")
async def test_client_that_answers_no_ping_is_lost() -> None:
    request = f"GET /acp HTTP/1.1\r\nHost: 127.0.0.1\r\n{UPGRADE}\r\n{KEY}\r\n\r\n"
    async with accepting() as (address, accepted):
        asking = asyncio.ensure_future(exchange(address, request))
        transport: Any = await accepted.get()
        transport.ping_interval_s = transport.ping_timeout_s = 0.05
        heard = Recorder()
        await transport.start(heard)
        await heard.until(lambda: heard.ended)
        assert "code 1011" in str(heard.ends[0])
        answer = await asking
        assert answer.endswith(b"\x03\xf3no answer to a ping")


async def test_client_that_stops_reading_makes_the_server_congested() -> None:
    """The agent then waits, and nothing more is buffered."""
    frame = b'"' + b"x" * 990 + b'"'
    heard = Recorder()
    async with (
        accepting() as (address, accepted),
        ws_connect(f"ws://{address}", compression=None, max_queue=1) as connection,
    ):
        transport: Any = await accepted.get()
        await transport.start(heard)
        connection.transport.pause_reading()
        written = 0
        async with asyncio.timeout(20):
            while not transport.congested:
                transport.write([frame] * 100)
                written += 100
                await asyncio.sleep(0)
        assert transport._connection.transport.get_write_buffer_size() < 2 * HIGH_BYTES
        connection.transport.resume_reading()
        async with asyncio.timeout(20):
            for _ in range(written):
                await connection.recv()
        assert not transport.congested
        assert heard.writable_calls == 1


def test_streams_that_end_leave_the_order_of_the_others() -> None:
    """Compares with the library, where the ends of many streams take long."""
    chance = random.Random(7)
    known, ours = trees = PriorityTree(), _PriorityTree()
    streams = range(1, 80, 2)
    for stream in streams:
        depends_on, weight = chance.choice([0, 0, *range(1, stream, 2)]), chance.randint(1, 256)
        for tree in trees:
            tree.insert_stream(stream, depends_on, weight)
    for stream in chance.sample(streams, 30):
        for tree in trees:
            tree.remove_stream(stream)
        assert [next(known) for _ in streams] == [next(ours) for _ in streams]
    with pytest.raises(MissingStreamError):
        ours.remove_stream(99)
