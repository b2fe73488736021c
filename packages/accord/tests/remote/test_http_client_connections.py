"""The HTTP client on HTTP/1.1 and HTTP/2: many streams, TLS, resets, proxies."""

from __future__ import annotations

import asyncio
import base64
import logging
import shutil
import ssl
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import accord
from accord import Agent, Turn
from accord.errors import TransportError
from accord.remote.listener import adapt_hypercorn
from accord.transports.registry import RemoteOptions, transport_for_url
from accord_conformance.network import RawServer
from event_loop import Changing
from remote.http_fake import (
    INITIALIZE,
    INITIALIZED,
    Fake,
    call,
    connected,
    event,
    fake,
    notice,
    result,
    started,
)
from remote.servers import hypercorn
from requirement import requirement

TOKEN = "the-token-of-these-tests"
Receive: TypeAlias = Callable[[], Awaitable[Any]]
Send: TypeAlias = Callable[[Any], Awaitable[None]]


class Streams(Changing):
    """An ASGI server that accepts all messages; a test sends events by `send`."""

    def __init__(self) -> None:
        super().__init__()
        self.queues: dict[str | None, asyncio.Queue[bytes]] = {}
        self.posts: list[bytes] = []
        self.answers: dict[bytes, bytes] = {}  # to POSTs, by the message
        self.versions: set[str] = set()
        self.clients: set[Any] = set()
        self.readers = 0

    def queue(self, session: str | None) -> asyncio.Queue[bytes]:
        return self.queues.setdefault(session, asyncio.Queue())

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        self.versions.add(scope["http_version"])
        if scope["method"] == "GET":
            await self.stream(headers.get("acp-session-id"), scope, receive, send)
            return
        body = b""
        while True:
            part = await receive()
            body += part.get("body", b"")
            if not part.get("more_body"):
                break
        self.posts.append(body)
        self.changed.set()
        kind = [(b"content-type", b"application/json"), (b"acp-connection-id", b"c-1")]
        answer = INITIALIZED if b'"initialize"' in body else self.answers.get(body, b"")
        is_json = answer.startswith(b"{")
        head = {"status": 200 if is_json else 202, "headers": kind if is_json else []}
        await send({"type": "http.response.start", **head})
        await send({"type": "http.response.body", "body": answer})

    async def stream(self, session: str | None, scope: Any, receive: Receive, send: Send) -> None:
        await receive()  # the request, which has no body
        self.readers += 1
        self.clients.add(tuple(scope["client"]))
        kind = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": kind})
        await send({"type": "http.response.body", "body": b":\n\n", "more_body": True})
        gone = asyncio.ensure_future(receive())
        try:
            while not gone.done():
                getting = asyncio.ensure_future(self.queue(session).get())
                await asyncio.wait((getting, gone), return_when=asyncio.FIRST_COMPLETED)
                if not getting.done():
                    getting.cancel()
                    break
                await send(
                    {"type": "http.response.body", "body": getting.result(), "more_body": True}
                )
        finally:
            gone.cancel()
            self.readers -= 1
            self.changed.set()


@asynccontextmanager
async def streams(**settings: Any) -> AsyncGenerator[tuple[Streams, str], None]:
    app = Streams()
    async with hypercorn(app, h2_max_concurrent_streams=100, **settings) as address:
        yield app, f"http://{address}"


@requirement("R-HTTP-38", "R-HTTP-03")
@pytest.mark.parametrize("h2c", [True, False])
async def test_many_streams_delay_neither_requests_nor_each_other(h2c: bool) -> None:
    count = 100 if h2c else 40
    async with (
        streams() as (app, url),
        connected(url, RemoteOptions(h2c=h2c)) as (transport, heard),
    ):
        sessions = [f"s{number}" for number in range(count)]
        transport.write([call(n, "session/prompt", name) for n, name in enumerate(sessions)])
        for number, name in reversed(list(enumerate(sessions))):
            app.queue(name).put_nowait(event(result(number)))
        await heard.until(lambda: len(heard.frames) == count)
        # Each answer arrives while all other streams are silent.
        for number in (count - 1, 0, 7):
            before = len(heard.frames)
            transport.write([call(number, "_again", f"s{number}")])
            app.queue(f"s{number}").put_nowait(event(result(number)))
            await heard.until(lambda before=before: len(heard.frames) == before + 1)
        assert app.versions == {"2" if h2c else "1.1"}
        used = len(app.clients)
        assert used == (2 if h2c else count + 1)  # 90 streams on each connection


@requirement("R-HTTP-38")
async def test_large_messages_both_ways_over_http2() -> None:
    large = b'{"text":"' + b"x" * 3_000_000 + b'"}'
    async with (
        streams() as (app, url),
        connected(url, RemoteOptions(h2c=True)) as (transport, heard),
    ):
        transport.write([large])
        app.queue(None).put_nowait(event(large))
        await heard.until(lambda: heard.frames == [large])
        await app.until(lambda: large in app.posts)


@requirement("R-HTTP-27")
async def test_paused_reader_holds_back_the_streams_and_nothing_else() -> None:
    adapt_hypercorn()
    chunk = event(b'{"text":"' + b"x" * 100_000 + b'"}')
    async with (
        streams() as (app, url),
        connected(url, RemoteOptions(h2c=True)) as (transport, heard),
    ):
        transport.pause_reading()
        for _ in range(400):
            app.queue(None).put_nowait(chunk)
        for count in range(2, 42):
            transport.write([notice("_note")])
            await app.until(lambda count=count: len(app.posts) >= count)
        assert not heard.frames
        assert app.queue(None).qsize() > 200  # the server cannot send more
        transport.resume_reading()
        await heard.until(lambda: len(heard.frames) == 400)


async def test_bodies_that_are_not_read_do_not_fill_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("accord.transports.http2._CONNECTION_WINDOW", 500_000)
    note, ask = notice("_note"), call(1, "_call")
    async with (
        streams() as (app, url),
        connected(url, RemoteOptions(h2c=True)) as (transport, heard),
    ):
        app.answers = {note: b"x" * 300_000, ask: result(1)}
        for _ in range(50):
            transport.write([note])
        transport.write([ask])
        await heard.until(lambda: bool(heard.frames))
        assert heard.frames == [result(1)]


async def test_closed_session_ends_its_stream_at_the_server() -> None:
    async with (
        streams() as (app, url),
        connected(url, RemoteOptions(h2c=True)) as (transport, heard),
    ):
        transport.write([call(1, "session/close", "s1")])
        app.queue("s1").put_nowait(event(result(1)))
        await heard.until(lambda: bool(heard.frames))
        await app.until(lambda: app.readers <= 1)


async def test_server_without_http2_is_an_error_if_it_was_asked_for() -> None:
    async with fake() as server, started(server.url, RemoteOptions(h2c=True)) as (transport, heard):
        transport.write([INITIALIZE])
        await heard.until(lambda: heard.ended)
        assert "Cannot connect" in str(heard.ends[0])


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a certificate for this machine, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificate")
    files = folder / "c.pem", folder / "k.pem"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    command += ["-out", str(files[0]), "-keyout", str(files[1])]
    subprocess.run(command, check=True, capture_output=True)
    return files


@requirement("R-HTTP-03")
@pytest.mark.parametrize("alpn", [["h2", "http/1.1"], ["http/1.1"]])
async def test_tls_negotiates_the_version(alpn: list[str], certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    settings = {"certfile": str(cert), "keyfile": str(key), "alpn_protocols": alpn}
    async with streams(**settings) as (app, url):
        secure = url.replace("http://127.0.0.1", "https://localhost")
        options = RemoteOptions(ca_file=cert, token=TOKEN)
        async with connected(secure, options) as (transport, heard):
            transport.write([call(1, "_call", "s1")])
            app.queue("s1").put_nowait(event(result(1)))
            await heard.until(lambda: bool(heard.frames))
        assert app.versions == {"2" if "h2" in alpn else "1.1"}
        async with started(secure, RemoteOptions(token=TOKEN)) as (transport, heard):
            transport.write([INITIALIZE])
            await heard.until(lambda: heard.ended)
            assert "certificate is not accepted" in str(heard.ends[0])


class Echo(Agent):
    async def prompt(self, turn: Turn) -> None:
        async with turn.tool("Ask", kind="edit") as tool:
            allowed = await tool.permission()
        await turn.say(f"{turn.text} {allowed}")


async def test_turn_with_the_server_of_accord() -> None:
    app = accord.asgi(Echo, token=TOKEN)
    async with hypercorn(app) as address:
        options = RemoteOptions(token=TOKEN, h2c=True)
        transport = transport_for_url(f"http://{address}", options)
        async with accord.connect(transport, permissions=lambda request: "allow") as agent:
            sessions = [await agent.new_session("/") for _ in range(5)]

            async def prompt(session: accord.ClientSession) -> str:
                async with session.prompt("hello") as turn:
                    await turn.wait()
                return turn.text

            assert await asyncio.gather(*map(prompt, sessions)) == ["hello True"] * 5


# Proxies.


@asynccontextmanager
async def proxy() -> AsyncGenerator[tuple[str, list[str]], None]:
    """Serve as an HTTP proxy; give its address, and the first lines of the requests."""
    lines: list[str] = []
    tasks: set[asyncio.Task[None]] = set()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines.append(head)
        method, target, _ = head.split("\r\n")[0].split(" ")
        if method == "CONNECT":
            host, _, port = target.rpartition(":")
            there, back = await asyncio.open_connection(host, int(port))
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            host, _, port = target.split("/")[2].rpartition(":")
            there, back = await asyncio.open_connection(host, int(port))
            back.write(head.encode())
        await asyncio.gather(copy(reader, back), copy(there, writer))

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.ensure_future(serve(reader, writer)))

    listening = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}", lines
    finally:
        listening.close()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


@requirement("R-SEC-10")
async def test_proxy_of_the_environment_is_used_if_asked_and_logged(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    certificate: tuple[Path, Path],
) -> None:
    caplog.set_level(logging.INFO)
    for name in ("no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    cert, key = certificate
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    async with proxy() as (address, lines), fake() as server:
        monkeypatch.setenv("http_proxy", f"http://ada:secret@{address}")
        monkeypatch.setenv("https_proxy", f"http://ada:secret@{address}")
        async with connected(server.url):
            pass
        assert lines == []
        async with connected(server.url, RemoteOptions(trust_env=True)) as (transport, heard):
            transport.write([call(1, "_call", "s1")])
            server.send("s1", event(result(1)))
            await heard.until(lambda: bool(heard.frames))
        assert {line.split()[0] for line in lines} == {"POST", "GET"}
        login = base64.b64encode(b"ada:secret").decode()
        assert all(f"Basic {login}" in line for line in lines)
        assert f"is reached by the proxy http://{address}" in caplog.text
        assert "secret" not in caplog.text
        lines.clear()
        behind = Fake()
        async with RawServer(behind.handle, tls=context) as raw:
            url = f"https://localhost:{raw.port}"
            options = RemoteOptions(trust_env=True, ca_file=cert, token=TOKEN)
            async with connected(url, options):
                pass
        assert {line.split()[0] for line in lines} == {"CONNECT"}
        assert TOKEN not in "".join(lines)


async def test_proxy_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake() as server:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        async with started(server.url, RemoteOptions(trust_env=True)) as (transport, heard):
            transport.write([INITIALIZE])
            await heard.until(lambda: heard.ended)
            assert isinstance(heard.ends[0], TransportError)
            assert "Cannot connect" in str(heard.ends[0])
