"""Streamable HTTP: POST, GET and DELETE of one endpoint.

`HttpServer` finds the connection of a request; `RequestBody` reads a body within its limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from accord.errors import ConnectionClosed
from accord.remote.access import (
    Event,
    HttpLimits,
    OpenConnections,
    Principal,
    Receive,
    Refusal,
    Scope,
    Send,
    headers_of,
    respond,
    respond_json,
    respond_refusal,
)
from accord.remote.http_connection import GONE, HttpConnection
from accord.remote.http_stream import (
    ID_LENGTH,
    SESSION_METHODS,
    MessageHead,
    NotAMessage,
    StreamReader,
    UnreadTotal,
    read_message,
)
from accord.transports.registry import REMOTE_FRAME_BYTES

# Reads the body of a request, within its limits.

BYTES_PER_S = 1024  # a body that arrives faster has more time (T9)
DISCARD_S = 1.0  # for the rest of a body that is refused
_GONE = Refusal(499, "The client has left")


class RequestBody:
    """The `receive` of a request, with methods for its body."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._ended = False

    async def __call__(self) -> Event:
        event = await self._receive()
        if not event.get("more_body", False):
            self._ended = True
        return event

    async def read(self, headers: dict[str, list[str]], limits: HttpLimits) -> bytes | Refusal:
        """Return the body, or why it is refused."""
        too_large = Refusal(413, f"The body has more than {limits.body_bytes} bytes", kind="size")
        length = headers.get("content-length", ["0"])[0]
        if length.isdigit() and int(length) > limits.body_bytes:
            return too_large
        until = asyncio.get_running_loop().time() + limits.body_s
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout_at(until) as timeout:
                while not self._ended:
                    event = await self()
                    if event["type"] == "http.disconnect":
                        return _GONE
                    if part := event.get("body", b""):
                        parts.append(part)
                        size += len(part)
                        if size > limits.body_bytes:
                            return too_large
                        timeout.reschedule(until + size / BYTES_PER_S)
        except TimeoutError:
            return Refusal(408, "The body did not arrive in time", kind="time")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def discard(self) -> None:
        """Read the rest of the body, for a moment.

        A client that still sends may not see a response, and hypercorn ends an HTTP/2 connection
        with all its streams when a body arrives after the response.
        """
        if self._ended:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(DISCARD_S):
                while not self._ended:
                    await self()


# Serves a connection until it ends; raises nothing.
RunConnection: TypeAlias = Callable[[HttpConnection], Coroutine[Any, Any, None]]

END_S = 2.0  # for connections to end before they are cancelled

_CONNECTION = "acp-connection-id"
_SESSION = "acp-session-id"
_METHODS = (("Allow", "GET, POST, DELETE"),)
_encode = msgspec.json.Encoder().encode


class HttpServer:
    """Serves the requests for one endpoint, once they are admitted."""

    def __init__(
        self,
        run: RunConnection,
        open_connections: OpenConnections,
        limits: HttpLimits,
        *,
        frame_bytes: int = REMOTE_FRAME_BYTES,
    ) -> None:
        self.accepts_connections: bool = True
        self._run = run
        self._open = open_connections
        self._limits = limits
        self._unread = UnreadTotal(limits.total_unread_bytes)
        self._frame_bytes = frame_bytes
        self._connections: dict[str, HttpConnection] = {}
        self._tasks: dict[HttpConnection, asyncio.Task[None]] = {}

    async def __call__(
        self, scope: Scope, principal: Principal, receive: RequestBody, send: Send
    ) -> None:
        """Answer a request of `principal`."""
        headers = headers_of(scope)
        match scope["method"]:
            case "POST":
                refusal = await self._post(headers, principal, receive, send)
            case "GET":
                refusal = await self._get(headers, principal, receive, send)
            case "DELETE":
                refusal = await self._delete(headers, principal, receive, send)
            case _:
                refusal = Refusal(405, "Use POST, GET or DELETE", _METHODS)
        if refusal is not None:
            await receive.discard()
            await respond_refusal(scope, send, refusal)

    async def aclose(self) -> None:
        """End all connections, in bounded time."""
        self.accepts_connections = False
        for connection in list(self._tasks):
            connection.end(ConnectionClosed("The server is going away"))
        if tasks := list(self._tasks.values()):
            _, late = await asyncio.wait(tasks, timeout=END_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    # POST.

    async def _post(
        self, headers: dict[str, list[str]], principal: Principal, receive: RequestBody, send: Send
    ) -> Refusal | None:
        if _media_type(headers.get("content-type", [])) != "application/json":
            return Refusal(415, "The content type must be application/json")
        connection = self._connection(headers, principal, is_optional=True)
        if isinstance(connection, Refusal):
            return connection
        body = await receive.read(headers, self._limits)
        if isinstance(body, Refusal):
            return body
        try:
            head = read_message(body)
        except NotAMessage as exc:
            if exc.is_array:  # R-BATCH-11
                await respond_json(send, 400, _BATCH)
                return None
            what = "a JSON object" if exc.is_json else "JSON"
            return Refusal(400, f"The body must be {what}")
        if head.kind == "request" and head.method == "initialize":
            return await self._initialize(connection, head, body, principal, receive, send)
        if connection is None:
            return Refusal(400, "The header Acp-Connection-Id is missing", kind="connection")
        session = _session_of(headers, head)
        if isinstance(session, Refusal):
            return session
        refusal = await connection.post(head, session, _SESSION in headers, body)
        if refusal is None:
            await respond(send, 202)
        return refusal

    async def _initialize(
        self,
        connection: HttpConnection | None,
        head: MessageHead,
        body: bytes,
        principal: Principal,
        receive: RequestBody,
        send: Send,
    ) -> Refusal | None:
        if head.has_null_id or head.id is None or _is_too_long(head.id):
            return Refusal(400, "initialize must have an id, of at most 1024 characters")
        if connection is None:
            if not self.accepts_connections:
                return Refusal(503, "This server is going away", (("Retry-After", "5"),), "drain")
            if (refusal := self._open.refusal(principal)) is not None:
                return refusal
            connection = self._start(principal)
        elif not connection.may_initialize:
            return Refusal(400, "This connection is already initialized", kind="connection")
        watching = asyncio.create_task(_end_when_gone(connection, receive))
        try:
            answer = await connection.initialize(head, body)
        except asyncio.CancelledError:
            connection.end()
            raise
        finally:
            watching.cancel()
            await asyncio.wait([watching])
        if isinstance(answer, Refusal):
            return answer
        if answer is None:
            connection.end()
            error = {"code": -32603, "message": "The agent did not answer initialize"}
            await respond_json(
                send, 500, _encode({"jsonrpc": "2.0", "id": head.id, "error": error})
            )
        else:
            await respond_json(send, 200, answer.frame, (("Acp-Connection-Id", connection.id),))
        return None

    def _start(self, principal: Principal) -> HttpConnection:
        connection = HttpConnection(
            principal, self._limits, self._unread, frame_bytes=self._frame_bytes
        )
        self._connections[connection.id] = connection
        self._open.add(principal, connection)
        task = asyncio.create_task(self._run(connection), name="accord serve a connection")
        self._tasks[connection] = task

        def ended(_task: asyncio.Task[None]) -> None:
            del self._connections[connection.id], self._tasks[connection]
            self._open.remove(connection)

        task.add_done_callback(ended)
        return connection

    # GET and DELETE.

    async def _get(
        self, headers: dict[str, list[str]], principal: Principal, receive: RequestBody, send: Send
    ) -> Refusal | None:
        if [value.lower() for value in headers.get("upgrade", [])] == ["websocket"]:
            return Refusal(426, "This server has no WebSocket")
        if "text/event-stream" not in ",".join(headers.get("accept", [])).lower():
            return Refusal(406, "The client must accept text/event-stream")
        connection = self._connection(headers, principal)
        if not isinstance(connection, HttpConnection):
            return connection
        session = _header(headers, _SESSION)
        if isinstance(session, Refusal):
            return session
        stream = connection.open_stream(session)
        if isinstance(stream, Refusal):
            return stream
        if stream.reader is not None and not (
            self._limits.second_reader == "takeover" and stream.reader.has_stopped()
        ):
            return Refusal(409, "The stream has a reader", (("Retry-After", "1"),), "reader")
        limits = self._limits
        reader = StreamReader(
            stream, receive, send, keepalive_s=limits.keepalive_s, stall_s=limits.stall_s
        )
        stream.attach(reader)
        await reader.run(_stream_start(connection.id, session))
        return None

    async def _delete(
        self, headers: dict[str, list[str]], principal: Principal, receive: RequestBody, send: Send
    ) -> Refusal | None:
        connection = self._connection(headers, principal)
        if not isinstance(connection, HttpConnection):
            return connection
        connection.end()
        await receive.discard()
        await respond(send, 202)
        return None

    # Headers.

    def _connection(
        self, headers: dict[str, list[str]], principal: Principal, *, is_optional: bool = False
    ) -> HttpConnection | Refusal | None:
        """Return the connection of a request; that of another principal is unknown (R-SEC-05)."""
        name = _header(headers, _CONNECTION)
        if isinstance(name, Refusal):
            return name
        if name is None:
            if is_optional:
                return None
            return Refusal(400, "The header Acp-Connection-Id is missing", kind="connection")
        found = self._connections.get(name)
        if found is None or found.principal != principal or found.is_over:
            return GONE
        return found


def _session_of(headers: dict[str, list[str]], head: MessageHead) -> str | None | Refusal:
    """Return the session of a message, by its header or its params (R-HTTP-34, R-HTTP-21)."""
    header = _header(headers, _SESSION)
    if isinstance(header, Refusal) or head.kind not in ("request", "notification"):
        return header
    if _is_too_long(head.id) or _is_too_long(head.session):
        return Refusal(400, "An id has more than 1024 characters")
    if header is not None and head.session is not None and header != head.session:
        return Refusal(
            400, "The header Acp-Session-Id is not the session of the params", kind="session"
        )
    session = head.session if header is None else header
    if session is None and head.method in SESSION_METHODS:
        return Refusal(400, "The header Acp-Session-Id is missing", kind="session")
    return session


def _header(headers: dict[str, list[str]], name: str) -> str | None | Refusal:
    values = headers.get(name)
    if values is None:
        return None
    if len(values) > 1:
        return Refusal(400, f"More than one header {name}")
    try:
        value = values[0].encode("latin-1").decode()
    except UnicodeDecodeError:
        value = values[0]
    return Refusal(400, "An id has more than 1024 characters") if _is_too_long(value) else value


def _is_too_long(value: object) -> bool:
    return (
        type(value) is str
        and len(value) > ID_LENGTH // 2
        and len(value.encode("utf-16-le", "surrogatepass")) > 2 * ID_LENGTH
    )


def _media_type(values: Sequence[str]) -> str:
    return values[0].partition(";")[0].strip().lower() if len(values) == 1 else ""


def _stream_start(connection_id: str, session: str | None) -> dict[str, Any]:
    headers = [
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-cache, no-transform"),
        (b"x-accel-buffering", b"no"),
        (b"acp-connection-id", connection_id.encode()),
    ]
    if session is not None:
        headers.append((b"acp-session-id", session.encode()))
    return {"type": "http.response.start", "status": 200, "headers": headers}


async def _end_when_gone(connection: HttpConnection, receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    connection.end()


_BATCH = _encode(
    {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32600, "message": "JSON-RPC batches are not supported"},
    }
)
