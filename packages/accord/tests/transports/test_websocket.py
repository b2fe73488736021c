"""The WebSocket client transport, with servers that refuse, misbehave and go away."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from accord.errors import ConnectionLost, TransportError
from accord.testing import Recorder
from accord.transports import websocket as module
from accord.transports.registry import CookieStore, RemoteOptions
from accord.transports.websocket import WebSocketTransport, websocket
from requirement import requirement

loops = ("asyncio", "uvloop")  # no file descriptors are watched
Handler = Callable[[ServerConnection], Awaitable[None]]


@asynccontextmanager
async def server(handler: Handler, **options: Any) -> AsyncGenerator[tuple[str, list[Request]]]:
    """Serve WebSocket connections; give the address, and the requests as they come."""
    requests: list[Request] = []
    check = options.pop("process_request", None)

    async def keep(connection: ServerConnection, request: Request) -> Response | None:
        requests.append(request)
        return None if check is None else check(connection, request)

    async with serve(
        handler, "127.0.0.1", 0, process_request=keep, compression=None, **options
    ) as listening:
        port = next(iter(listening.sockets)).getsockname()[1]
        yield f"ws://127.0.0.1:{port}", requests


@asynccontextmanager
async def connected(
    url: str, options: RemoteOptions | None = None, **settings: Any
) -> AsyncGenerator[tuple[WebSocketTransport, Recorder]]:
    transport = websocket(url, options, **settings)()
    assert isinstance(transport, WebSocketTransport)
    heard = Recorder()
    await transport.start(heard)
    try:
        yield transport, heard
    finally:
        async with asyncio.timeout(20):
            await transport.aclose()


@asynccontextmanager
async def tcp_server(
    handler: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncGenerator[str]:
    """Serve TCP connections; give the WebSocket URL, and wait for the handlers at the end."""
    handlers: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await handler(reader, writer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.add(asyncio.ensure_future(handle(reader, writer)))

    listening = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"ws://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()
        if handlers:
            _, running = await asyncio.wait(handlers, timeout=20)
            assert not running


async def wait(connection: ServerConnection) -> None:
    await connection.wait_closed()


@requirement("R-WS-12")
async def test_handshake_offers_neither_subprotocol_nor_extension() -> None:
    async with server(wait) as (url, requests), connected(url):
        headers = requests[0].headers
        assert requests[0].path == "/acp"
        assert "Sec-WebSocket-Protocol" not in headers
        assert "Sec-WebSocket-Extensions" not in headers
        assert "Authorization" not in headers


async def test_path_and_query_of_the_url_are_used_as_they_are() -> None:
    async with server(wait) as (url, requests), connected(f"{url}/a/b?c=d"):
        assert requests[0].path == "/a/b?c=d"


@requirement("R-SEC-04")
async def test_token_is_sent_as_a_header() -> None:
    options = RemoteOptions(token="token-of-a-test")
    async with server(wait) as (url, requests), connected(url, options):
        assert requests[0].headers["Authorization"] == "Bearer token-of-a-test"


@requirement("R-WS-10")
async def test_connection_id_is_known_if_the_server_sends_one() -> None:
    async with server(wait) as (url, _), connected(url) as (transport, _heard):
        assert transport.connection_id is None

    def name(_connection: ServerConnection, _request: Request, response: Response) -> None:
        response.headers["Acp-Connection-Id"] = "c-1"

    async with (
        server(wait, process_response=name) as (url, _),
        connected(url) as (transport, _heard),
    ):
        assert transport.connection_id == "c-1"


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (401, "needs a valid token"),
        (403, "does not allow"),
        (404, "no agent at this path"),
        (421, "host name"),
        (426, "does not accept WebSocket"),
        (429, "try again later"),
        (503, "try again later"),
        (500, "Internal Server Error"),
    ],
)
async def test_refusal_names_its_status_and_what_to_do(status: int, advice: str) -> None:
    def refuse(connection: ServerConnection, _request: Request) -> Response:
        return connection.respond(HTTPStatus(status), "secret details\n")

    async with server(wait, process_request=refuse) as (url, _):
        with pytest.raises(TransportError, match=f"status {status}: .*{advice}") as refused:
            async with connected(url):
                pass
        assert "secret details" not in str(refused.value)


@requirement("R-WS-12", "R-SEC-07")
async def test_redirect_is_not_followed() -> None:
    async with server(wait) as (other, others):

        def redirect(connection: ServerConnection, _request: Request) -> Response:
            response = connection.respond(HTTPStatus.TEMPORARY_REDIRECT, "")
            response.headers["Location"] = f"{other}/acp?ticket=secret"
            return response

        async with server(wait, process_request=redirect) as (url, _):
            options = RemoteOptions(token="token-of-a-test")
            with pytest.raises(TransportError, match=f"redirects to {other}/acp, ") as refused:
                async with connected(url, options):
                    pass
            assert "secret" not in str(refused.value)
        assert others == []


@requirement("R-WS-03", "R-WS-09")
async def test_binary_messages_are_ignored_and_fragments_joined() -> None:
    async def send(connection: ServerConnection) -> None:
        await connection.send(b"\x00binary")
        await connection.send(["{", '"a"', ":1}"])
        await connection.send([b"bin", b"ary"])
        await connection.send("{}")
        await connection.wait_closed()

    async with server(send) as (url, _), connected(url) as (_, heard):
        await heard.until(lambda: len(heard.frames) == 2)
        assert heard.frames == [b'{"a":1}', b"{}"]


@requirement("R-WS-13")
@pytest.mark.parametrize("size", [2 * 1024 * 1024, 31 * 1024 * 1024])
async def test_message_within_the_limit_arrives(size: int) -> None:
    text = '"' + "x" * size + '"'

    async def send(connection: ServerConnection) -> None:
        await connection.send(text)
        await connection.wait_closed()

    async with server(send) as (url, _), connected(url) as (_, heard):
        await heard.until(lambda: bool(heard.frames))
        assert len(heard.frames[0]) == size + 2


@requirement("R-WS-13")
async def test_message_over_the_limit_closes_with_1009() -> None:
    closed: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

    async def send(connection: ServerConnection) -> None:
        await connection.send('"' + "x" * 33 * 1024 * 1024 + '"')
        await connection.wait_closed()
        closed.set_result(connection.close_code)

    async with server(send) as (url, _), connected(url) as (_, heard):
        await heard.until(lambda: heard.ended)
        assert isinstance(heard.ends[0], ConnectionLost)
        assert "code 1009, a message was too large" in str(heard.ends[0])
        assert not heard.frames
        async with asyncio.timeout(20):
            assert await closed == 1009


@requirement("R-WS-17")
@pytest.mark.parametrize(
    ("code", "shown"), [(1001, "going away"), (1008, "refuses"), (1011, "internal"), (4000, "4000")]
)
async def test_error_has_the_close_code_and_the_reason(code: int, shown: str) -> None:
    async def close(connection: ServerConnection) -> None:
        await connection.close(code, "said\x1b[31m so")

    async with server(close) as (url, _), connected(url) as (_, heard):
        await heard.until(lambda: heard.ended)
        error = str(heard.ends[0])
        assert f"code {code}" in error
        assert shown in error
        assert "said" in error
        assert "\x1b" not in error


async def test_reason_that_says_the_same_as_the_code_is_shown_once() -> None:
    async def close(connection: ServerConnection) -> None:
        await connection.close(1001, "the server is going away")

    async with server(close) as (url, _), connected(url) as (_, heard):
        await heard.until(lambda: heard.ended)
        assert str(heard.ends[0]).endswith("code 1001, the server is going away")


async def test_orderly_close_of_the_server_is_the_end_of_input() -> None:
    async def close(connection: ServerConnection) -> None:
        await connection.send("{}")

    async with server(close) as (url, _), connected(url) as (_, heard):
        await heard.until(lambda: heard.ended)
        assert (heard.frames, heard.ends) == ([b"{}"], [None])


async def _silent_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Accept the handshake, then say nothing and answer nothing."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    key = re.search(r"(?i)sec-websocket-key: *(\S+)", head)
    assert key is not None
    digest = hashlib.sha1(f"{key[1]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + base64.b64encode(digest) + b"\r\n\r\n"
    )
    await _read_all(reader)


async def _read_all(reader: asyncio.StreamReader) -> None:
    with suppress(OSError):
        while await reader.read(1000):
            pass


@requirement("R-WS-14")
async def test_server_that_answers_no_ping_is_lost() -> None:
    async with (
        tcp_server(_silent_server) as url,
        connected(url, ping_interval_s=0.05, ping_timeout_s=0.05) as (_, heard),
    ):
        await heard.until(lambda: heard.ended)
        assert isinstance(heard.ends[0], ConnectionLost)
        assert "no answer to a ping" in str(heard.ends[0])


@requirement("R-WS-15")
async def test_handshake_that_is_never_answered_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HANDSHAKE_S", 0.05)

    async def swallow(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await _read_all(reader)

    async with tcp_server(swallow) as url:
        with pytest.raises(TransportError, match="timed out during opening handshake"):
            async with connected(url):
                pass


async def test_server_that_is_no_http_server_is_an_error() -> None:
    async def chatter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        writer.write_eof()
        await _read_all(reader)

    async with tcp_server(chatter) as url:
        with pytest.raises(TransportError, match=f"Cannot connect to {url}/acp"):
            async with connected(url):
                pass


def _server_frame(first: int, payload: bytes) -> bytes:
    size = len(payload)
    length = bytes([size]) if size < 126 else bytes([126]) + size.to_bytes(2, "big")
    return bytes([first]) + length + payload


@requirement("R-WS-03", "R-WS-09")
@pytest.mark.parametrize("step", [1, 2, 3, 7, 10_000])
async def test_messages_are_the_same_however_the_data_is_divided(step: int) -> None:
    text, binary, more, last, ping = 0x81, 0x82, 0x00, 0x80, 0x89
    data = b"".join(
        (
            _server_frame(text, b'{"a":1}'),
            _server_frame(binary, b"\x81\x00"),
            _server_frame(0x01, b"[1"),  # a text message in three fragments, a ping among them
            _server_frame(ping, b"here"),
            _server_frame(more, b",2"),
            _server_frame(last, b"]"),
            _server_frame(text, b'"' + b"x" * 300 + b'"'),
            _server_frame(text, b""),
            _server_frame(text, b"{}"),
        )
    )
    async with tcp_server(_silent_server) as url, connected(url) as (transport, heard):
        connection = transport._connection
        assert connection is not None
        for at in range(0, len(data), step):
            connection.data_received(data[at : at + step])
        expected = [b'{"a":1}', b"[1,2]", b'"' + b"x" * 300 + b'"', b"", b"{}"]
        assert heard.frames == expected
        # The server does not close, as it says nothing.
        connection.transport.abort()


@requirement("R-WS-14")
async def test_reader_that_pauses_is_not_taken_for_a_lost_connection() -> None:
    passed = asyncio.Event()

    async def send(connection: ServerConnection) -> None:
        await connection.send("{}")
        await passed.wait()
        await connection.send("[]")
        await connection.wait_closed()

    async with (
        server(send) as (url, _),
        connected(url, ping_interval_s=0.02, ping_timeout_s=0.02) as (transport, heard),
    ):
        await heard.until(lambda: len(heard.frames) == 1)
        transport.pause_reading()
        for _ in range(3):  # pings, without a way to see the pongs
            timer = transport._ping_timer
            while transport._ping_timer is timer:
                await asyncio.sleep(0)
        passed.set()
        transport.resume_reading()
        await heard.until(lambda: len(heard.frames) == 2)
        assert not heard.ended


@requirement("R-HTTP-04", "R-WS-09")
async def test_cookies_are_sent_with_the_next_handshake_to_the_same_server() -> None:
    def give(_connection: ServerConnection, _request: Request, response: Response) -> None:
        response.headers["Set-Cookie"] = "route=a1; Path=/; HttpOnly"
        response.headers["Set-Cookie"] = "other=b2"

    async with (
        server(wait, process_response=give) as (url, requests),
        server(wait) as (elsewhere, others),
    ):
        open_one = websocket(url)
        for _ in range(2):
            transport = open_one()
            assert isinstance(transport, WebSocketTransport)
            await transport.start(Recorder())
            await transport.aclose()
        assert [one.headers.get("Cookie") for one in requests] == [None, "route=a1; other=b2"]
        options = RemoteOptions(cookies=CookieStore())
        for address in (url, elsewhere, url):
            async with connected(address, options):
                pass
        assert others[0].headers.get("Cookie") is None
        assert requests[-1].headers["Cookie"] == "route=a1; other=b2"
