"""Raw HTTP and WebSocket, for scenarios that send what no library would.

From the bottom: messages of HTTP/1.1, one end of a WebSocket, a server whose handler decides every
byte of a response, and a client with a connection for each request.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct, field
from websockets.frames import Frame as SocketFrame
from websockets.frames import Opcode
from websockets.protocol import Protocol, Side, State

from accord.text.lenient_json import is_object
from accord.text.redact import is_secret_header
from accord_conformance.traffic.message import Frame

# HTTP/1.1 messages on a stream: heads, bodies and chunks, read and written as they are.

_MAX_HEAD = 64 * 1024
_MAX_BODY = 80 * 1024 * 1024
_READ = 64 * 1024


class BadMessage(Exception):
    """The peer sent something that is not HTTP, or ended the connection within a message."""


class Headers:
    """The header fields of a message, in order; names are compared without case."""

    def __init__(self, fields: Iterable[tuple[str, str]] = ()) -> None:
        self.fields: list[tuple[str, str]] = list(fields)

    def get(self, name: str) -> str | None:
        """Return the first value of a field, None if there is none."""
        return next(iter(self.all(name)), None)

    def all(self, name: str) -> list[str]:
        """Return all values of a field."""
        return [value for found, value in self.fields if found.lower() == name.lower()]


class Head(Struct):
    """The first line of a message in its three parts, and the header fields."""

    first: str
    second: str
    third: str
    headers: Headers = field(default_factory=Headers)

    @property
    def status(self) -> int:
        """The status of a response."""
        return int(self.second)


class ByteReader:
    """Reads from a connection; bytes that were read too early can be put back."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._early = b""

    async def some(self) -> bytes:
        """Return the next bytes; none at the end."""
        if self._early:
            data, self._early = self._early, b""
            return data
        try:
            return await self._reader.read(_READ)
        except OSError:
            return b""

    def put_back(self, data: bytes) -> None:
        """Let the next call return these bytes first."""
        self._early = data + self._early

    async def until(self, mark: bytes, limit: int) -> bytes:
        """Return the bytes up to and with a mark."""
        data = b""
        while mark not in data:
            more = await self.some()
            if not more or len(data) > limit:
                if data or more:
                    raise BadMessage("the connection ended within a message")
                return b""
            data += more
        found, _, rest = data.partition(mark)
        self.put_back(rest)
        return found + mark

    async def exactly(self, size: int) -> bytes:
        """Return as many bytes."""
        parts: list[bytes] = []
        missing = size
        while missing:
            more = await self.some()
            if not more:
                raise BadMessage("the connection ended within a body")
            parts.append(more[:missing])
            self.put_back(more[missing:])
            missing -= len(parts[-1])
        return b"".join(parts)


async def read_head(reader: ByteReader) -> Head | None:
    """Read the head of a request or a response; None at the end of the connection."""
    data = await reader.until(b"\r\n\r\n", _MAX_HEAD)
    if not data:
        return None
    first, *lines = data[:-4].decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2:
        raise BadMessage(f"not the first line of an HTTP message: {first[:80]!r}")
    fields = [(name.strip(), value.strip()) for name, _, value in (x.partition(":") for x in lines)]
    return Head(words[0], words[1], words[2] if len(words) > 2 else "", Headers(fields))


async def read_body(reader: ByteReader, headers: Headers) -> bytes:
    """Read a body that has a length or comes in chunks; without either there is none."""
    if "chunked" in (headers.get("Transfer-Encoding") or "").lower():
        parts: list[bytes] = []
        while data := await read_chunk(reader):
            parts.append(data)
        return b"".join(parts)
    try:
        size = int(headers.get("Content-Length") or 0)
    except ValueError:
        raise BadMessage("the length of the body is not a number") from None
    if size > _MAX_BODY:
        raise BadMessage("the body is too long for this test")
    return await reader.exactly(size)


async def read_chunk(reader: ByteReader) -> bytes:
    """Read a chunk of a body; no bytes after the last one."""
    line = await reader.until(b"\r\n", _MAX_HEAD)
    try:
        size = int(line.split(b";")[0], 16)
    except ValueError:
        raise BadMessage("a chunk of the body has no length") from None
    data = await reader.exactly(size)
    await reader.until(b"\r\n", _MAX_HEAD)
    return data


def head_bytes(first: str, fields: Iterable[tuple[str, str]]) -> bytes:
    """Return a head as bytes."""
    lines = [first, *(f"{name}: {value}" for name, value in fields)]
    return "\r\n".join((*lines, "", "")).encode("latin-1")


def chunk(data: bytes) -> bytes:
    """Return data as a chunk; no data is the last chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)


# One end of a WebSocket connection that shows every frame, and can send wrong ones.

_MAX_BYTES = 80 * 1024 * 1024
_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_ABNORMAL = 1006
_CLOSE_S = 2.0


def accept_key(key: str) -> str:
    """Return the answer to the key of a handshake."""
    return base64.b64encode(hashlib.sha1((key + _MAGIC).encode()).digest()).decode()


class RawSocket:
    """An open WebSocket connection; call `start` once.

    `texts` and `binaries` have the received messages, and `pings` counts the received pings, which
    are answered. `close_code` is set when the connection has ended: 1006 without a close message.
    """

    def __init__(
        self,
        reader: ByteReader,
        writer: asyncio.StreamWriter,
        *,
        is_client: bool,
        on_text: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        self.texts: list[bytes] = []
        self.binaries: list[bytes] = []
        self.pings = 0
        self.takes_binary = False  # as text
        self.close_code: int | None = None
        self.close_reason = ""
        self._reader, self._writer = reader, writer
        self._on_text = on_text
        side = Side.CLIENT if is_client else Side.SERVER
        self._protocol = Protocol(side, state=State.OPEN, max_size=_MAX_BYTES)
        self._parts: list[bytes] = []
        self._is_text = True
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to read."""
        self._task = asyncio.ensure_future(self._read())

    def send_text(self, text: bytes) -> None:
        """Send a text message."""
        self._protocol.send_text(text)
        self._flush()

    def send_binary(self, data: bytes) -> None:
        """Send a binary message."""
        self._protocol.send_binary(data)
        self._flush()

    def send_ping(self) -> None:
        """Send a ping."""
        self._protocol.send_ping(b"")
        self._flush()

    async def drain(self) -> None:
        """Wait until what was sent has left this process, nearly."""
        with suppress(OSError):
            await self._writer.drain()

    async def wait(self, holds: Callable[[], bool], within_s: float) -> bool:
        """Wait until a condition holds, or the connection has ended; return whether it holds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not holds() and self.close_code is None:
                    self._changed.clear()
                    await self._changed.wait()
        return holds()

    async def aclose(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection in order, in bounded time."""
        with suppress(Exception):
            self._protocol.send_close(code, reason)
            self._flush()
        await self.wait(lambda: False, _CLOSE_S)
        self.abort()
        if self._task is not None:
            await asyncio.wait([self._task])

    def abort(self) -> None:
        """Cut the connection, without a close message."""
        transport = self._writer.transport
        if not transport.is_closing():
            transport.abort()

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data and not self._writer.is_closing():
                self._writer.write(data)

    async def _read(self) -> None:
        while self.close_code is None:
            data = await self._reader.some()
            if data:
                self._protocol.receive_data(data)
            else:
                self._protocol.receive_eof()
            for event in self._protocol.events_received():
                if isinstance(event, SocketFrame):
                    self._received(event)
            self._flush()
            closed = self._protocol.close_rcvd
            if not data or closed is not None:
                self.close_code = closed.code if closed is not None else _ABNORMAL
                self.close_reason = closed.reason if closed is not None else ""
            self._changed.set()
        if not self._writer.is_closing():
            self._writer.close()

    def _received(self, frame: SocketFrame) -> None:
        match frame.opcode:
            case Opcode.TEXT | Opcode.BINARY | Opcode.CONT:
                if frame.opcode is not Opcode.CONT:
                    self._parts = []
                    self._is_text = frame.opcode is Opcode.TEXT
                self._parts.append(bytes(frame.data))
                if frame.fin:
                    message = b"".join(self._parts)
                    (self.texts if self._is_text else self.binaries).append(message)
                    if self._is_text or self.takes_binary:
                        self._on_text(message)
            case Opcode.PING:
                self.pings += 1
            case _:
                return


# A small HTTP/1.1 server whose handler decides every byte of a response.

_REASONS = {200: "OK", 202: "Accepted", 101: "Switching Protocols", 400: "Bad Request"}

Handler: TypeAlias = Callable[["Exchange"], Awaitable[None]]


class Exchange:
    """A request, and its response, which the handler sends.

    `connection` is the number of the TCP connection. `status` is that of the response, once it was
    sent.
    """

    def __init__(
        self, head: Head, body: bytes, reader: ByteReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        self.method = head.first
        self.target = head.second
        self.path = head.second.partition("?")[0]
        self.headers = head.headers
        self.body = body
        self.connection = number
        self.time = time.monotonic()
        self.status: int | None = None
        self.is_gone = asyncio.Event()  # the client has closed the connection
        self.keeps_open = True
        self._reader, self._writer = reader, writer

    def header(self, name: str) -> str | None:
        """Return the first value of a header."""
        return self.headers.get(name)

    async def respond(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole response."""
        fields = {"Content-Length": str(len(body)), **(headers or {})}
        await self._write(self._head(status, fields) + body)

    async def start_stream(self, headers: Mapping[str, str]) -> None:
        """Send the head of a response whose body follows in parts."""
        await self._write(self._head(200, {**headers, "Transfer-Encoding": "chunked"}))

    async def send(self, data: bytes) -> None:
        """Send a part of the body; raise `ConnectionError` if the client is gone."""
        if self.is_gone.is_set():
            raise ConnectionResetError("the client has closed the stream")
        await self._write(chunk(data))

    async def end(self) -> None:
        """End the body in order."""
        await self._write(chunk(b""))

    async def send_bytes(self, data: bytes) -> None:
        """Send bytes that need not be HTTP."""
        await self._write(data)

    def abort(self) -> None:
        """Cut the connection in the middle of the response."""
        self.keeps_open = False
        self._writer.transport.abort()

    async def upgrade(
        self, headers: Mapping[str, str], on_text: Callable[[bytes], None] = lambda _: None
    ) -> RawSocket:
        """Accept a WebSocket handshake."""
        self.keeps_open = False
        key = self.header("Sec-WebSocket-Key") or ""
        fields = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Accept": accept_key(key),
            **headers,
        }
        await self._write(self._head(101, fields))
        socket = RawSocket(self._reader, self._writer, is_client=False, on_text=on_text)
        socket.start()
        return socket

    async def watch(self) -> None:
        """Set `is_gone` when the client closes the connection; run this while a stream is open."""
        early = await self._reader.some()
        if early:
            self._reader.put_back(early)
        else:
            self.is_gone.set()

    def _head(self, status: int, fields: Mapping[str, str]) -> bytes:
        self.status = status
        return head_bytes(f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}", fields.items())

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


class RawServer:
    """Serves each request by `handle`, on a port of this machine; use it with `async with`."""

    def __init__(
        self,
        handle: Handler,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._handle = handle
        self._host, self._port, self._tls = host, port, tls
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.connections = 0
        self.errors: list[Exception] = []  # of the handler
        self.port = 0

    async def __aenter__(self) -> RawServer:
        self._server = await asyncio.start_server(
            self._accept, self._host, self._port, ssl=self._tls
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.ensure_future(self._serve(reader, writer, self.connections))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        incoming = ByteReader(reader)
        try:
            keeps_open = True
            while keeps_open:
                head = await read_head(incoming)
                if head is None:
                    break
                if "100-continue" in (head.headers.get("Expect") or ""):
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await read_body(incoming, head.headers)
                exchange = Exchange(head, body, incoming, writer, number)
                await self._handle(exchange)
                keeps_open = exchange.keeps_open
        except (BadMessage, OSError):
            pass
        except Exception as error:  # noqa: BLE001  # the test that owns the server looks at it
            self.errors.append(error)
        finally:
            with suppress(OSError, asyncio.CancelledError):
                writer.close()
                async with asyncio.timeout(1):
                    await writer.wait_closed()


# A client that sends HTTP requests as they are, each on a connection of its own.

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
