"""A client that sends HTTP requests as they are, each on a connection of its own."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field

from accord.text.lenient_json import is_object
from accord.text.redact import is_secret_header
from accord_conformance.network.http_message import (
    BadMessage,
    ByteReader,
    Headers,
    head_bytes,
    read_body,
    read_chunk,
    read_head,
)
from accord_conformance.network.raw_socket import RawSocket
from accord_conformance.traffic.frame import Frame

_CONNECT_S = 10.0
_SHOWN = 2000  # bytes of a body in the evidence


class Address(Struct, frozen=True):
    """Where the server is, the token that it wants, and the certificates to trust."""

    url: str
    token: str | None = None
    ca_file: str | None = None

    @property
    def is_secure(self) -> bool:
        """Whether the connection is encrypted."""
        return urlsplit(self.url).scheme.lower() in ("https", "wss")

    @property
    def host(self) -> str:
        """The host name."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """The port, also if the URL does not name it."""
        return urlsplit(self.url).port or (443 if self.is_secure else 80)

    @property
    def target(self) -> str:
        """What a request asks for: the path and the query."""
        parts = urlsplit(self.url)
        path = "/acp" if parts.path in ("", "/") else parts.path
        return path + (f"?{parts.query}" if parts.query else "")


class Reply(Struct):
    """A response; `status` is 0 if the connection ended instead, for which `why` is the reason."""

    status: int
    headers: Headers = field(default_factory=Headers)
    body: bytes = b""
    frames: tuple[Frame, ...] = ()
    why: str = ""

    def header(self, name: str) -> str | None:
        """Return the first value of a header."""
        return self.headers.get(name)

    def json(self) -> Any:
        """Return the body as JSON, None if it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def outcome(self) -> str:
        """The status in words, for findings."""
        return f"status {self.status}" if self.status else self.why or "no response"


class Event(Struct):
    """An event of a stream: its lines, and the message if its data is a JSON object."""

    lines: list[bytes]
    message: dict[str, Any] | None
    frame: Frame


class OpenStream:
    """A response that continues: `events` and `comments` have what has arrived.

    `status` is that of the response; only 200 has events.
    """

    def __init__(self, reply: Reply, on_change: Callable[[], None]) -> None:
        self.reply = reply
        self.events: list[Event] = []
        self.comments: list[bytes] = []
        self.began = time.monotonic()
        self.is_over = False
        self.is_orderly = False
        self.on_change = on_change
        self._rest = b""
        self.task: asyncio.Task[None] | None = None
        self.writer: asyncio.StreamWriter | None = None  # which closes when nothing refers to it

    @property
    def status(self) -> int:
        """The status of the response."""
        return self.reply.status

    def feed(self, data: bytes, record: Callable[[bytes], Frame]) -> None:
        """Take bytes of the stream."""
        self._rest += data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        while b"\n\n" in self._rest or (self._rest.startswith(b":") and b"\n" in self._rest):
            if self._rest.startswith(b":"):
                line, _, self._rest = self._rest.partition(b"\n")
                self.comments.append(line)
                self._rest = self._rest.removeprefix(b"\n")
                continue
            block, _, self._rest = self._rest.partition(b"\n\n")
            self._event(block, record)
        self.on_change()

    def _event(self, block: bytes, record: Callable[[bytes], Frame]) -> None:
        lines = [line for line in block.split(b"\n") if line and not line.startswith(b":")]
        self.comments += [line for line in block.split(b"\n") if line.startswith(b":")]
        if not lines:
            return
        parts = [line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:")]
        message: Any = None
        with suppress(ValueError):
            message = json.loads(b"\n".join(parts))
        found = message if is_object(message) else None
        self.events.append(Event(lines, found, record(block)))

    def ended(self, *, orderly: bool) -> None:
        """The response has ended."""
        self.is_over, self.is_orderly = True, orderly
        self.on_change()

    async def aclose(self) -> None:
        """Close the connection of the stream."""
        if self.writer is not None:
            self.writer.transport.abort()
        if self.task is not None:
            await asyncio.wait([self.task])


class RawClient:
    """Sends requests to one address; `frames` has all of them and their responses, as evidence."""

    def __init__(self, address: Address, *, within_s: float = 10.0) -> None:
        self.address = address
        self.within_s = within_s
        self.frames: list[Frame] = []
        self.changed = asyncio.Event()
        self._began = time.monotonic()
        self._open: list[OpenStream] = []
        self._sockets: list[RawSocket] = []

    async def aclose(self) -> None:
        """Close all streams and sockets."""
        for stream in self._open:
            await stream.aclose()
        for socket in self._sockets:
            await socket.aclose()

    async def request(
        self,
        method: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        login: bool = True,
        within_s: float | None = None,
        target: str | None = None,
        expect_body: bool = True,
    ) -> Reply:
        """Send a request and return its response; never raises for what the server does."""
        sent = self._record_request(method, headers or {}, body)
        try:
            async with asyncio.timeout(within_s or self.within_s):
                reader, writer = await self._connect()
                try:
                    writer.write(self._head(method, headers or {}, body, login, target))
                    writer.write(body)
                    with suppress(OSError):
                        await writer.drain()
                    head = await read_head(reader)
                    if head is None:
                        return self._nothing(sent, "the connection was closed")
                    content = b""
                    is_endless = "event-stream" in (head.headers.get("Content-Type") or "")
                    if method != "HEAD" and expect_body and not (is_endless and head.status == 200):
                        content = await read_body(reader, head.headers)
                finally:
                    writer.transport.abort()
        except TimeoutError:
            return self._nothing(sent, f"no response in {within_s or self.within_s:g} s")
        except (BadMessage, OSError, ValueError) as error:
            return self._nothing(sent, f"no response: {error}")
        return self._reply(sent, head.status, head.headers, content)

    async def open_stream(
        self, headers: Mapping[str, str] | None = None, *, login: bool = True
    ) -> OpenStream:
        """Send a GET and return its response as soon as the headers have arrived."""
        fields = {"Accept": "text/event-stream", **(headers or {})}
        sent = self._record_request("GET", fields, b"")
        try:
            async with asyncio.timeout(self.within_s):
                reader, writer = await self._connect()
                writer.write(self._head("GET", fields, b"", login, None))
                head = await read_head(reader)
        except (TimeoutError, BadMessage, OSError) as error:
            reply = self._nothing(sent, f"no response: {error or 'too late'}")
            return OpenStream(reply, self.changed.set)
        if head is None:
            return OpenStream(self._nothing(sent, "the connection was closed"), self.changed.set)
        stream = OpenStream(self._reply(sent, head.status, head.headers, b""), self.changed.set)
        stream.writer = writer
        if head.status == 200:
            stream.task = asyncio.ensure_future(self._read_stream(stream, reader, head.headers))
        else:
            with suppress(TimeoutError, BadMessage, OSError):
                async with asyncio.timeout(self.within_s):
                    stream.reply.body = await read_body(reader, head.headers)
            writer.transport.abort()
        self._open.append(stream)
        return stream

    async def _read_stream(self, stream: OpenStream, reader: ByteReader, headers: Headers) -> None:
        chunked = "chunked" in (headers.get("Transfer-Encoding") or "").lower()
        orderly = False
        with suppress(BadMessage, OSError):
            while True:
                data = await (read_chunk(reader) if chunked else reader.some())
                if not data:
                    orderly = True
                    break
                stream.feed(data, lambda text: self._record("agent", text))
        stream.ended(orderly=orderly)

    async def upgrade(
        self, headers: Mapping[str, str] | None = None, *, login: bool = True
    ) -> tuple[Reply, RawSocket | None]:
        """Ask for a WebSocket connection; return the response, and the socket if there is one."""
        fields = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(secrets.token_bytes(16)).decode(),
            **(headers or {}),
        }
        sent = self._record_request("GET", fields, b"")
        try:
            async with asyncio.timeout(self.within_s):
                reader, writer = await self._connect()
                writer.write(self._head("GET", fields, b"", login, None))
                head = await read_head(reader)
        except (TimeoutError, BadMessage, OSError) as error:
            return self._nothing(sent, f"no response: {error or 'too late'}"), None
        if head is None:
            return self._nothing(sent, "the connection was closed"), None
        reply = self._reply(sent, head.status, head.headers, b"")
        if head.status != 101:
            with suppress(TimeoutError, BadMessage, OSError):
                async with asyncio.timeout(self.within_s):
                    reply.body = await read_body(reader, head.headers)
            writer.transport.abort()
            return reply, None
        socket = RawSocket(reader, writer, is_client=True, on_text=lambda text: self._take(text))
        self._sockets.append(socket)
        socket.start()
        return reply, socket

    def _take(self, text: bytes) -> None:
        self._record("agent", text)
        self.changed.set()

    def record_sent(self, text: bytes) -> Frame:
        """Add what was sent on a socket to the evidence."""
        return self._record("client", text)

    async def max_streams(self) -> tuple[bool, int | None]:
        """Return whether the server takes HTTP/2, and how many streams it allows at once."""
        try:
            async with asyncio.timeout(self.within_s):
                reader, writer = await self._connect(alpn="h2")
                try:
                    if self.address.is_secure:
                        found = writer.get_extra_info("ssl_object")
                        if found is None or found.selected_alpn_protocol() != "h2":
                            return False, None
                    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
                    head = await reader.exactly(9)
                    if head[3] != 4:
                        return False, None
                    settings = await reader.exactly(int.from_bytes(head[:3], "big"))
                finally:
                    writer.transport.abort()
        except (TimeoutError, BadMessage, OSError):
            return False, None
        pairs = [settings[at : at + 6] for at in range(0, len(settings), 6)]
        found_at = {int.from_bytes(one[:2], "big"): int.from_bytes(one[2:], "big") for one in pairs}
        return True, found_at.get(3)

    async def wait(self, holds: Callable[[], bool], within_s: float | None = None) -> bool:
        """Wait until a condition holds, which only an event can make true."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s or self.within_s):
                while not holds():
                    self.changed.clear()
                    await self.changed.wait()
        return holds()

    async def _connect(self, alpn: str = "http/1.1") -> tuple[ByteReader, asyncio.StreamWriter]:
        context = None
        if self.address.is_secure:
            context = ssl.create_default_context(cafile=self.address.ca_file)
            context.set_alpn_protocols([alpn])
        reader, writer = await asyncio.open_connection(
            self.address.host, self.address.port, ssl=context
        )
        return ByteReader(reader), writer

    def _head(
        self, method: str, headers: Mapping[str, str], body: bytes, login: bool, target: str | None
    ) -> bytes:
        host = f"[{self.address.host}]" if ":" in self.address.host else self.address.host
        fields = {"Host": f"{host}:{self.address.port}"}
        if login and self.address.token is not None:
            fields["Authorization"] = f"Bearer {self.address.token}"
        if body or method == "POST":
            fields["Content-Length"] = str(len(body))
        fields.update(headers)
        first = f"{method} {target or self.address.target} HTTP/1.1"
        return head_bytes(first, fields.items())

    # Evidence.

    def _record(self, sender: Any, text: bytes) -> Frame:
        frame = Frame(len(self.frames) + 1, time.monotonic() - self._began, sender, text)
        self.frames.append(frame)
        return frame

    def _record_request(self, method: str, headers: Mapping[str, str], body: bytes) -> Frame:
        path = self.address.target.partition("?")[0]
        return self._record("client", _text(f"{method} {path}", headers.items(), body))

    def _reply(self, sent: Frame, status: int, headers: Headers, body: bytes) -> Reply:
        got = self._record("agent", _text(f"status {status}", headers.fields, body))
        return Reply(status, headers, body, (sent, got))

    def _nothing(self, sent: Frame, why: str) -> Reply:
        return Reply(0, frames=(sent,), why=why)


def _text(first: str, headers: Any, body: bytes) -> bytes:
    """Return a message as evidence, without secrets, and with the beginning of its body."""
    shown = [f"{name}: {value}" for name, value in headers if not is_secret_header(name)]
    return "\n".join((first, *shown)).encode() + (b"\n\n" + body[:_SHOWN] if body else b"")
