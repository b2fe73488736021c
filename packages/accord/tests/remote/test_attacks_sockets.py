"""Attacks below the protocol: slow, many and malformed connections (T9, T12, T13, T14)."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import pytest
from websockets.exceptions import InvalidMessage

import accord
from accord.remote.access import HttpLimits
from accord.remote.server import SocketLimits
from remote.attackers import LOGIN, TOKEN, Recording, http, raw, status_of
from remote.servers import served
from requirement import requirement

HAS_PROC = Path("/proc/self/status").exists()


def half_open() -> int:
    """Return 1,000, or less on machines where a process has fewer file descriptors."""
    if sys.platform == "win32":
        return 500
    import resource

    return 1_000 if resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 2_000 else 500


HALF_OPEN = half_open()


@asynccontextmanager
async def serving(
    agent: Any = Recording, *, limits: SocketLimits | None = None, **options: Any
) -> AsyncGenerator[str, None]:
    app = accord.asgi(agent, **{"token": TOKEN, **options})
    async with served(app, socket_limits=limits or SocketLimits()) as address:
        yield address


@asynccontextmanager
async def connected(
    address: str,
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter], None]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()
        await asyncio.wait([asyncio.ensure_future(writer.wait_closed())])


async def is_served(address: str) -> None:
    """Assert that another client is served at once."""
    async with asyncio.timeout(10), raw(address) as client:
        await client.initialize()
        answer = await client.request("session/new", cwd="/", mcpServers=[])
        assert "result" in answer


async def ends(reader: asyncio.StreamReader) -> bytes:
    """Return what arrives until the server closes, within 20 seconds."""
    async with asyncio.timeout(20):
        try:
            return await reader.read()
        except ConnectionError:
            return b""


INCOMPLETE_HEADS = [
    b"",
    b"G",
    b"GET /acp HTTP/1.1\r\n",
    b"GET /acp HTTP/1.1\r\nHost: localhost\r\nX: ",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
]


@requirement("R-SEC-08")
async def test_head_that_does_not_arrive_ends_the_connection() -> None:
    """T9: slow loris."""
    async with serving(limits=SocketLimits(head_s=0.2)) as address:
        for head in INCOMPLETE_HEADS:
            async with connected(address) as (reader, writer):
                writer.write(head)
                await ends(reader)
            await is_served(address)


@requirement("R-SEC-08")
async def test_head_that_trickles_ends_the_connection() -> None:
    """T9: each byte is new data, and the time is for the whole head."""
    sent = 0
    async with serving(limits=SocketLimits(head_s=0.3)) as address:
        async with connected(address) as (reader, writer):
            ended = asyncio.ensure_future(ends(reader))
            writer.write(b"GET /acp HTTP/1.1\r\nHost: localhost\r\n")
            while not ended.done():
                writer.write(b"a")
                sent += 1
                await asyncio.wait([ended], timeout=0.02)
            await ended
        assert sent > 5
        await is_served(address)


async def test_connection_with_a_request_outlives_the_time_for_the_head() -> None:
    async with serving(limits=SocketLimits(head_s=0.2)) as address, raw(address) as client:
        await client.initialize()
        async with connected(address) as (reader, _writer):
            await ends(reader)  # opened later, and already over
        answer = await client.request("session/new", cwd="/", mcpServers=[])
        assert "result" in answer


def memory_kib() -> int:
    """Return the resident memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


@pytest.mark.skipif(not HAS_PROC, reason="reads /proc")
@requirement("R-SEC-08")
@pytest.mark.timeout(300)
async def test_half_open_connections_keep_nobody_out() -> None:
    """T9, T12: many connections on which no request arrives."""
    limits = SocketLimits(without_request=HALF_OPEN // 5, head_s=60)
    attackers: list[socket.socket] = []
    async with serving(limits=limits) as address, raw(address) as before:
        await before.initialize()
        await is_served(address)
        used = memory_kib()
        host, _, port = address.rpartition(":")
        loop = asyncio.get_running_loop()
        try:
            for number in range(HALF_OPEN):
                attacker = socket.socket()
                attacker.setblocking(False)
                attackers.append(attacker)
                await loop.sock_connect(attacker, (host, int(port)))
                await loop.sock_sendall(attacker, b"GET /acp HTTP/1.1\r\nHost: loc")
                if number % (HALF_OPEN // 5) == HALF_OPEN // 10:
                    await is_served(address)
            await is_served(address)
            grown = memory_kib() - used
        finally:
            for attacker in attackers:
                attacker.close()
        answer = await before.request("session/new", cwd="/", mcpServers=[])
        assert "result" in answer
    per_connection = grown / limits.without_request
    assert per_connection < 150, f"{grown} KiB for {HALF_OPEN} connections"


@requirement("R-SEC-08")
async def test_sockets_of_one_address_are_limited() -> None:
    limits = SocketLimits(per_address=3)
    async with serving(limits=limits) as address, raw(address) as one, raw(address) as two:
        await one.initialize()
        await two.initialize()
        async with connected(address), connected(address) as (reader, _):
            assert await ends(reader) == b""
        answer = await one.request("session/new", cwd="/", mcpServers=[])
        assert "result" in answer
        async with asyncio.timeout(20):
            while True:  # until the server has seen that the others are gone
                try:
                    await is_served(address)
                except InvalidMessage:
                    continue
                break


@requirement("R-SEC-08")
async def test_client_that_is_refused_does_not_keep_its_socket() -> None:
    async with serving() as address:
        for path, login, status in (("/acp", "", 401), ("/health", "", 200), ("/x", LOGIN, 404)):
            request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{login}\r\n"
            assert status_of(await http(address, request.encode())) == status


async def test_client_that_leaves_an_idle_connection_frees_it() -> None:
    """The server waits 75 seconds for the next request, unless the client has gone."""
    body = (
        '{"jsonrpc":"2.0","id":1,"method":"initialize",'
        '"params":{"protocolVersion":1,"clientCapabilities":{}}}'
    )
    head = (
        "POST /acp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"{LOGIN}Content-Length: {len(body)}\r\n\r\n"
    )
    async with serving(limits=SocketLimits(per_address=1)) as address:
        for _ in range(3):
            async with asyncio.timeout(20):
                while not await initializes(address, (head + body).encode()):
                    pass


async def initializes(address: str, request: bytes) -> bool:
    """Send a request and leave; return whether it was answered."""
    async with connected(address) as (reader, writer):
        try:
            writer.write(request)
            return (await reader.readline()).split()[1:2] == [b"200"]
        except ConnectionError:
            return False


# HTTP/2.


class Http2:
    """A raw HTTP/2 client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        config = h2.config.H2Configuration(validate_outbound_headers=False)
        self.connection = h2.connection.H2Connection(config)
        self.connection.initiate_connection()
        self.reader = reader
        self.writer = writer
        self.statuses: list[int] = []
        self.acknowledged = -1  # the last ping
        self.ended = False

    def headers(self, method: str, login: bool, *more: tuple[str, str]) -> list[tuple[str, str]]:
        found = [
            (":method", method),
            (":path", "/acp"),
            (":scheme", "http"),
            (":authority", "localhost"),
            *more,
        ]
        return [*found, ("authorization", f"Bearer {TOKEN}")] if login else found

    async def flush(self) -> None:
        self.writer.write(self.connection.data_to_send())
        await self.writer.drain()

    async def read(self) -> None:
        """Handle what arrives next."""
        async with asyncio.timeout(20):
            data = await self.reader.read(65536)
        if not data:
            self.ended = True
            return
        for event in self.connection.receive_data(data):
            if isinstance(event, h2.events.ResponseReceived):
                assert event.headers is not None
                self.statuses.append(int(dict(event.headers)[b":status"]))
            elif isinstance(event, h2.events.PingAckReceived):
                self.acknowledged = int.from_bytes(event.ping_data, "big")
            elif isinstance(event, h2.events.ConnectionTerminated):
                self.ended = True
        self.writer.write(self.connection.data_to_send())


@asynccontextmanager
async def http2(address: str) -> AsyncGenerator[Http2, None]:
    async with connected(address) as (reader, writer):
        client = Http2(reader, writer)
        await client.flush()
        await client.read()
        yield client


async def reset_many(client: Http2, *, login: bool) -> None:
    """Send requests and take each back, until the server has enough; fail after 5,000."""
    more = ("content-length", "10"), ("content-type", "application/json")
    try:
        for number in range(200):
            for _ in range(25):
                stream = client.connection.get_next_available_stream_id()
                client.connection.send_headers(stream, client.headers("POST", login, *more))
                client.connection.reset_stream(stream)
            client.connection.ping(number.to_bytes(8, "big"))
            await client.flush()
            while client.acknowledged < number and not client.ended:
                await client.read()
            if client.ended:
                return
    except (ConnectionError, h2.exceptions.ProtocolError):
        return
    pytest.fail("the server serves the connection")


@requirement("R-SEC-08")
@pytest.mark.parametrize("login", [False, True])
async def test_rapid_reset_ends_the_connection(login: bool) -> None:
    """T13: each request is taken back at once, so that the limit of streams does not count."""
    running = most = seen = 0

    async def authenticate(request: accord.RemoteRequest) -> accord.Principal | None:
        nonlocal running, most, seen
        seen += 1
        running += 1
        most = max(most, running)
        try:
            await asyncio.sleep(0)
        finally:
            running -= 1
        return accord.Principal("ada") if "authorization" in request.headers else None

    options: Any = {"token": None, "authenticate": authenticate}
    async with serving(**options) as address:
        async with http2(address) as client:
            await reset_many(client, login=login)
        assert most < 1000
        assert seen < 1500
        async with raw(address) as other:
            await other.initialize()


@requirement("R-SEC-08")
async def test_guessing_on_one_connection_is_limited() -> None:
    async with serving(limits=SocketLimits(refusals=20)) as address, http2(address) as client:
        while not client.ended and len(client.statuses) < 30:
            stream = client.connection.get_next_available_stream_id()
            client.connection.send_headers(stream, client.headers("GET", False), end_stream=True)
            try:
                await client.flush()
                await client.read()
            except ConnectionError:
                break
        assert set(client.statuses) == {401}
        assert len(client.statuses) <= 20


@requirement("R-SEC-08")
async def test_header_bomb_ends_the_connection() -> None:
    """T13: a small head that becomes a large one."""
    async with serving() as address:
        used = memory_kib() if HAS_PROC else 0
        async with http2(address) as client:
            # The first field enters the table of the compression, the others refer to it.
            bomb = [("x-bomb", "a" * 4000)] * 4000
            stream = client.connection.get_next_available_stream_id()
            headers = client.headers("GET", True, *bomb)
            client.connection.send_headers(stream, headers, end_stream=True)
            client.writer.write(client.connection.data_to_send())
            while not client.ended:
                try:
                    await client.read()
                except ConnectionError:
                    break
            assert 200 not in client.statuses
        await is_served(address)
        if used:
            assert memory_kib() - used < 50_000


@requirement("R-SEC-08")
async def test_continuation_flood_ends_the_connection() -> None:
    async with serving() as address:
        async with connected(address) as (reader, writer):
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
            writer.write(frame(1, 0, 1, b"\x82"))  # HEADERS without END_HEADERS
            ended = asyncio.ensure_future(ends(reader))
            for _ in range(2000):
                writer.write(frame(9, 0, 1, b"\x00\x01a\x01b" * 100))
                if ended.done():
                    break
                await asyncio.sleep(0)
            await ended
        await is_served(address)


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return an HTTP/2 frame."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


@requirement("R-SEC-08")
async def test_head_that_is_too_large_is_refused() -> None:
    async with serving() as address:
        head = f"GET /acp HTTP/1.1\r\nHost: localhost\r\n{LOGIN}X: {'a' * 100_000}\r\n\r\n"
        assert status_of(await http(address, head.encode())) == 431
        many = "".join(f"X-{number}: a\r\n" for number in range(20_000))
        head = f"GET /acp HTTP/1.1\r\nHost: localhost\r\n{LOGIN}{many}\r\n"
        assert status_of(await http(address, head.encode())) == 431


# Smuggling.

INNER = f"DELETE /acp HTTP/1.1\r\nHost: localhost\r\n{LOGIN}Acp-Connection-Id: x\r\n\r\n"


TWO_LENGTHS = [
    f"Content-Length: {len(INNER)}\r\nTransfer-Encoding: chunked\r\n",
    f"Transfer-Encoding: chunked\r\nContent-Length: {len(INNER)}\r\n",
    f"Content-Length: 0\r\nContent-Length: {len(INNER)}\r\n",
    "Content-Length: +5\r\n",
    "Content-Length: 0x10\r\n",
    "Content-Length: -1\r\n",
    "Content-Length: 1, 2\r\n",
    "Transfer-Encoding: xchunked\r\n",
    "Transfer-Encoding: chunked, identity\r\n",
    "Transfer-Encoding : chunked\r\n",
    "Transfer-Encoding: \x0bchunked\r\n",
    "X: a\r\n b\rTransfer-Encoding: chunked\r\n",
    "X: a\nTransfer-Encoding: chunked\r\n\x00: b\r\n",
]


@requirement("R-SEC-08")
async def test_request_with_two_lengths_is_one_request_at_most() -> None:
    """T14: a proxy and the server must not disagree where a request ends."""
    head = f"POST /acp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{LOGIN}"
    async with serving() as address:
        for headers in TWO_LENGTHS:
            sent = f"{head}{headers}\r\n0\r\n\r\n{INNER}"
            answer = await http(address, sent.encode("latin-1"))
            assert answer.count(b"HTTP/1.1 ") == 1, answer
            assert status_of(answer) in (400, 413, 415, 501), answer
            await is_served(address)


@requirement("R-SEC-08")
async def test_malformed_chunk_ends_the_connection() -> None:
    head = (
        "POST /acp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"{LOGIN}Transfer-Encoding: chunked\r\n\r\n"
    )
    async with serving(http_limits=HttpLimits(body_s=0.2)) as address:
        for chunk in ("5\r\nabc", "fffffffff\r\n", "5;" + "x" * 100_000, "zz\r\n"):
            answer = await http(address, (head + chunk).encode())
            assert answer == b"" or status_of(answer) in (400, 408, 431), chunk
            await is_served(address)
