"""A server of ACP by HTTP and WebSocket that differs as the servers of other SDKs do.

Each field of `ServerQuirks` is a point in which servers differ, and `SERVER_PRESETS` has the values
of known ones. `faults` are mistakes that no known server makes, for tests of the conformance kit.
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from accord.agent.agent import serve
from accord.script_agent.agent import ScriptAgent
from accord.transports.base import Frame
from accord.transports.memory import pair
from accord_conformance.client.network import SESSION_METHODS
from accord_conformance.network import Exchange, RawServer, RawSocket

Json: TypeAlias = dict[str, Any]

REOPENING = {"session/load", "session/resume"}


@dataclass(frozen=True)
class ServerQuirks:
    """The points in which servers differ; the defaults are what the rules want."""

    second_initialize: Literal["refuse", "new"] = "refuse"
    failed_initialize_has_id: bool = True
    # Which requests need the session header: those with a session, or these methods only.
    header_for: Literal["nothing", "sessions", "java"] | frozenset[str] = "nothing"
    header_into_params: bool = False
    contradiction: Literal["refuse", "ignore", "answer"] = "refuse"
    answers_need_header: bool = False
    post_unknown_session: Literal["accept", "404", "answer"] = "accept"
    get_unknown_session: int = 200
    second_reader: Literal["refuse", "takeover", "share"] = "refuse"
    load_answer: Literal["connection", "session"] = "connection"
    load_replay: Literal["connection", "session"] = "session"
    resume_answer: Literal["connection", "session"] = "session"
    has_unstable_methods: bool = True
    array: Literal["refuse", "answer", "501"] = "refuse"
    malformed: Literal["text", "forward", "json", "rpc"] = "text"
    delete_unknown: int = 404
    error_body: Literal["text", "json", "rpc"] = "rpc"
    body_bytes: int | None = 16 * 1024 * 1024
    comment: bytes = b":\n\n"
    opening_comment: bytes = b": open\n\n"
    repeats_headers: bool = True
    event_ids: bool = False
    retry_ms: int | None = None
    accepts_any: bool = False  # `Accept: */*` is enough for a stream
    keepalive_s: float = 15.0
    ws_id: bool = True
    ws_not_initialized: Literal["close", "pass"] = "close"
    ws_malformed: Literal["answer", "close", "skip"] = "answer"
    ws_limit: int = 32 * 1024 * 1024
    ws_ping_s: float | None = None
    ws_first_message_s: float | None = None
    h2_streams: int | None = None  # answers the preface of HTTP/2, but nothing more
    faults: frozenset[str] = frozenset()


_RC3 = frozenset(
    f"session/{name}" for name in ("prompt", "cancel", "set_mode", "set_config_option", "close")
)
SERVER_PRESETS: dict[str, ServerQuirks] = {
    "ts": ServerQuirks(
        header_for="sessions",
        answers_need_header=True,
        error_body="text",
        opening_comment=b"",
        repeats_headers=False,
    ),
    "rust": ServerQuirks(
        second_initialize="new",
        failed_initialize_has_id=False,
        header_into_params=True,
        load_answer="session",
        array="answer",
        malformed="forward",
        error_body="text",
        opening_comment=b"",
        ws_not_initialized="pass",
    ),
    "java": ServerQuirks(
        header_for="java",
        post_unknown_session="404",
        second_reader="takeover",
        resume_answer="connection",
        array="501",
        error_body="text",
        comment=b": keep-alive\n\n",
        opening_comment=b": connected\n\n",
        ws_id=False,
        ws_malformed="close",
        ws_limit=16 * 1024 * 1024,
    ),
    "rc3": ServerQuirks(
        second_initialize="new",
        header_for=_RC3,
        contradiction="ignore",
        post_unknown_session="404",
        get_unknown_session=404,
        second_reader="share",
        load_replay="connection",
        resume_answer="connection",
        has_unstable_methods=False,
        array="501",
        malformed="json",
        error_body="json",
        body_bytes=None,
        comment=b": keepalive\n\n",
        opening_comment=b"",
        repeats_headers=False,
        accepts_any=True,
        ws_not_initialized="pass",
        ws_malformed="skip",
    ),
    "qwen": ServerQuirks(
        second_initialize="new",
        contradiction="answer",
        post_unknown_session="answer",
        get_unknown_session=403,
        second_reader="takeover",
        array="501",
        malformed="rpc",
        delete_unknown=202,
        error_body="json",
        opening_comment=b"",
        repeats_headers=False,
        event_ids=True,
        retry_ms=3000,
        ws_limit=10 * 1024 * 1024,
    ),
}


class Stream:
    """The messages for one reader: those of a session, or of the connection."""

    def __init__(self) -> None:
        self.waiting: list[tuple[int, bytes]] = []
        self.sent: list[tuple[int, bytes]] = []  # with event ids, for `Last-Event-ID`
        self.last_id = 0
        self.readers: list[Reader] = []
        self.changed = asyncio.Event()

    def put(self, message: bytes) -> None:
        self.last_id += 1
        self.waiting.append((self.last_id, message))
        self.changed.set()


@dataclass(eq=False)
class Reader:
    """A GET that is open."""

    exchange: Exchange
    is_over: bool = False
    cut: bool = False  # abnormally


class Connection:
    """A client's connection, and its agent."""

    def __init__(self, server: QuirkServer, ident: str) -> None:
        self.id = ident
        self.server = server
        self.streams: dict[str | None, Stream] = {None: Stream()}
        self.sessions: set[str] = set()
        self.calls: dict[str, Json] = {}  # requests of the client, with the stream of the answer
        self.asked: dict[str, str | None] = {}  # requests of the agent, with their stream
        self.first: asyncio.Future[Json] | None = None
        self.first_id: Any = None
        self.on_message: Callable[[bytes], None] = self.route
        self._inner, self._theirs = pair()
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._inner.start(self)
        self._serving = asyncio.ensure_future(serve(self.server.make_agent(), self._theirs))

    async def aclose(self) -> None:
        self.server.connections.pop(self.id, None)
        for stream in self.streams.values():
            for reader in stream.readers:
                reader.is_over = True
            stream.changed.set()
        await self._inner.aclose()
        if self._serving is not None:
            async with asyncio.timeout(10):
                await self._serving

    def to_agent(self, body: bytes) -> None:
        self._inner.write([body])

    def stream(self, session: str | None) -> Stream:
        return self.streams.setdefault(session, Stream())

    # The agent's messages.

    def frames_received(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            self.on_message(bytes(frame))

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        raise AssertionError(limit)

    def eof_received(self, error: Exception | None) -> None:
        return

    def writable(self) -> None:
        return

    def route(self, text: bytes) -> None:
        """Put a message of the agent into its stream."""
        message = json.loads(text)
        quirks = self.server.quirks
        if "method" not in message:
            key = json.dumps(message.get("id"))
            if self.first is not None and not self.first.done() and message["id"] == self.first_id:
                self.first.set_result(message)
                return
            call = self.calls.pop(key, None)
            self._learn(call, message)
            session = self._stream_of_answer(call)
            self.stream(session).put(text)
            return
        session = (message.get("params") or {}).get("sessionId")
        if "id" in message:
            self.asked[json.dumps(message["id"])] = session
        elif any(one.get("method") == "session/load" for one in self.calls.values()):
            session = session if quirks.load_replay == "session" else None
        if self.has("updates on the connection stream"):
            session = None
        self.stream(session).put(text)

    def has(self, fault: str) -> bool:
        return fault in self.server.quirks.faults

    def _learn(self, call: Json | None, message: Json) -> None:
        if call is None or "result" not in message:
            return
        found = (message["result"] or {}).get("sessionId")
        if found is None and call["method"] in REOPENING:
            found = (call.get("params") or {}).get("sessionId")
        if isinstance(found, str):
            self.sessions.add(found)

    def _stream_of_answer(self, call: Json | None) -> str | None:
        if call is None or self.has("answers on the connection stream"):
            return None
        quirks = self.server.quirks
        match call["method"]:
            case "session/load":
                return call["stream"] if quirks.load_answer == "session" else None
            case "session/resume":
                return call["stream"] if quirks.resume_answer == "session" else None
            case _:
                return call["stream"]


class QuirkServer:
    """A server on a free port of this machine; use it with `async with`.

    `log` has each request by HTTP: method, status, and the parsed message.
    """

    def __init__(
        self,
        quirks: ServerQuirks | str = "ts",
        make_agent: Callable[[], ScriptAgent] = ScriptAgent,
        *,
        token: str | None = None,
    ) -> None:
        self.quirks = SERVER_PRESETS[quirks] if isinstance(quirks, str) else quirks
        self.make_agent = make_agent
        self.token = token
        self.connections: dict[str, Connection] = {}
        self.log: list[Exchange] = []
        self.sockets: list[RawSocket] = []
        self.raw = RawServer(self._handle)

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.raw.port}/acp"

    @property
    def ws_url(self) -> str:
        return f"ws://127.0.0.1:{self.raw.port}/acp"

    async def __aenter__(self) -> QuirkServer:
        await self.raw.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in list(self.connections.values()):
            await connection.aclose()
        for socket in self.sockets:
            await socket.aclose(1001)
        await self.raw.__aexit__()
        assert not self.raw.errors, self.raw.errors

    def end_streams(self, *, cut: bool = False) -> None:
        """End every open stream, in order or by cutting its connection."""
        for connection in self.connections.values():
            for stream in connection.streams.values():
                for reader in stream.readers:
                    reader.is_over, reader.cut = True, cut
                stream.changed.set()

    def has(self, fault: str) -> bool:
        return fault in self.quirks.faults

    @property
    def _bearer(self) -> str:
        """The subprotocol with the token."""
        encoded = base64.urlsafe_b64encode((self.token or "").encode()).decode().rstrip("=")
        return f"acp.bearer.{encoded}"

    # Requests.

    async def _handle(self, exchange: Exchange) -> None:
        self.log.append(exchange)
        if exchange.method == "PRI" and self.quirks.h2_streams is not None:
            settings = b"\0\3" + self.quirks.h2_streams.to_bytes(4, "big")
            await exchange.send_bytes(b"\0\0\6\4\0\0\0\0\0" + settings)
            exchange.keeps_open = False
        elif exchange.path != "/acp":
            await self._refuse(exchange, 404, "not here")
        elif not self._is_logged_in(exchange):
            await self._refuse(exchange, 401, "a token is needed")
        elif (exchange.header("Upgrade") or "").lower() == "websocket":
            await self._websocket(exchange)
        elif exchange.header("Upgrade") and self.has("426 for any upgrade"):
            await self._refuse(exchange, 426, "WebSocket only")
        elif exchange.method == "POST":
            await self._post(exchange)
        elif exchange.method == "GET":
            await self._get(exchange)
        elif exchange.method == "DELETE" and not self.has("no DELETE"):
            await self._delete(exchange)
        elif exchange.method == "OPTIONS" and self.has("200 for OPTIONS"):
            await exchange.respond(200)
        else:
            status = 404 if self.has("404 for a method") else 405
            await self._refuse(exchange, status, "unknown method")

    def _is_logged_in(self, exchange: Exchange) -> bool:
        if self.token is None or exchange.header("Authorization") == f"Bearer {self.token}":
            return True
        if self._bearer in (exchange.header("Sec-WebSocket-Protocol") or "").split(", "):
            return True
        is_known = exchange.header("Acp-Connection-Id") in self.connections
        return is_known and self.has("ids are a login")

    async def _refuse(self, exchange: Exchange, status: int, text: str, code: int = -32600) -> None:
        kind = "application/json"
        match self.quirks.error_body:
            case "text":
                body, kind = text.encode(), "text/plain"
            case "json":
                body = json.dumps({"error": text}).encode()
            case "rpc":
                error = {"code": code, "message": text}
                body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
                if "json" not in (exchange.header("Accept") or "json"):
                    body, kind = text.encode(), "text/plain"
        if self.has("tracebacks in errors"):
            body, kind = b'Traceback (most recent call last):\n  File "/agent.py"', "text/plain"
        await exchange.respond(
            status, b"" if exchange.method == "HEAD" else body, {"Content-Type": kind}
        )

    def _connection(self, exchange: Exchange) -> Connection | None:
        return self.connections.get(exchange.header("Acp-Connection-Id") or "")

    async def _known(self, exchange: Exchange) -> Connection | None:
        """Return the connection, or refuse the request."""
        found = self._connection(exchange)
        if found is None:
            status = 404 if exchange.header("Acp-Connection-Id") else 400
            if self.has("400 for an unknown connection"):
                status = 400
            await self._refuse(exchange, status, "which connection?", -32002)
        return found

    # POST.

    async def _post(self, exchange: Exchange) -> None:
        kind = (exchange.header("Content-Type") or "").partition(";")[0].strip().lower()
        if self.has("exact content type"):
            kind = exchange.header("Content-Type") or ""
        if kind != "application/json" and not self.has("any content type"):
            await self._refuse(exchange, 415, "application/json is needed")
            return
        limit = self.quirks.body_bytes
        if limit is not None and len(exchange.body) > limit:
            await self._refuse(exchange, 413, "too long", -32603)
            return
        try:
            message = json.loads(exchange.body)
        except ValueError:
            await self._malformed(exchange)
            return
        if isinstance(message, list):
            await self._array(exchange)
        elif not isinstance(message, dict):
            await self._malformed(exchange)
        elif message.get("method") == "initialize":
            await self._initialize(exchange, message)
        elif (connection := await self._known(exchange)) is not None:
            await self._message(exchange, connection, message)

    async def _malformed(self, exchange: Exchange) -> None:
        if self.quirks.malformed == "forward":
            connection = self._connection(exchange)
            if connection is not None:
                connection.to_agent(exchange.body)
                await exchange.respond(202)
                return
        if self.has("202 for anything"):
            await exchange.respond(202)
            return
        await self._refuse(exchange, 400, "that is no JSON object")

    async def _array(self, exchange: Exchange) -> None:
        if self.quirks.array == "501":
            await self._refuse(exchange, 501, "no batches")
            return
        error = {"code": -32600, "message": "no batches"}
        body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
        await exchange.respond(
            200 if self.quirks.array == "answer" else 400,
            b"[" + body + b"]" if self.quirks.array == "answer" else body,
            {"Content-Type": "application/json"},
        )

    async def _initialize(self, exchange: Exchange, message: Json) -> None:
        old = self._connection(exchange)
        if exchange.header("Acp-Connection-Id") is not None:
            if self.has("initialize again"):
                assert old is not None
                await self._answer_first(exchange, old, message)
                return
            if self.quirks.second_initialize == "refuse":
                await self._refuse(exchange, 400, "this connection is initialized")
                return
        if message.get("id") is None and not self.has("null ids"):
            await self._refuse(exchange, 400, "initialize needs an id")
            return
        connection = Connection(self, secrets.token_hex(16))
        self.connections[connection.id] = connection
        await connection.start()
        await self._answer_first(exchange, connection, message)

    async def _answer_first(
        self, exchange: Exchange, connection: Connection, message: Json
    ) -> None:
        connection.first = asyncio.get_running_loop().create_future()
        connection.first_id = message.get("id")
        if message.get("id") is None:  # a fault: answered although it is a notification
            answer: Json = {"jsonrpc": "2.0", "id": None, "result": {}}
        else:
            connection.to_agent(exchange.body)
            answer = await connection.first
        headers = {"Content-Type": "application/json", "Acp-Connection-Id": connection.id}
        failed = "error" in answer
        if (failed and not self.quirks.failed_initialize_has_id) or self.has("no connection id"):
            del headers["Acp-Connection-Id"]
        if self.has("cookies"):
            headers["Set-Cookie"] = "route=a1; Path=/; HttpOnly"
        status = 201 if self.has("201 for initialize") else 200
        await exchange.respond(status, json.dumps(answer).encode(), headers)
        if failed and not self.quirks.failed_initialize_has_id:
            await connection.aclose()

    async def _message(self, exchange: Exchange, connection: Connection, message: Json) -> None:
        quirks = self.quirks
        header = exchange.header("Acp-Session-Id")
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        named = params.get("sessionId")
        method = message.get("method")
        if method is None:
            await self._answer(exchange, connection, message, header)
            return
        if self._lacks_header(method, named, header):
            await self._refuse(exchange, 400, "Acp-Session-Id is needed")
            return
        nowhere = header is None and not isinstance(named, str)
        if method in SESSION_METHODS and nowhere and not self.has("202 for anything"):
            await self._refuse(exchange, 400, "which session?")
            return
        if header is not None and isinstance(named, str) and header != named:
            if quirks.contradiction == "refuse" and not self.has("contradictions"):
                await self._refuse(exchange, 400, "two different sessions")
                return
            if quirks.contradiction == "answer":
                await self._answer_error(exchange, connection, message, -32602)
                return
        if method == "$/cancel_request" and self.has("cancels need a session") and header is None:
            await self._refuse(exchange, 400, "Acp-Session-Id is needed")
            return
        session = header or (named if isinstance(named, str) else None)
        unknown = session is not None and session not in connection.sessions
        if unknown and method not in REOPENING and quirks.post_unknown_session != "accept":
            if quirks.post_unknown_session == "404":
                await self._refuse(exchange, 404, "unknown session", -32002)
            else:
                await self._answer_error(exchange, connection, message, -32602)
            return
        if not quirks.has_unstable_methods and method in (
            "session/resume",
            "session/close",
            "session/fork",
        ):
            await self._answer_error(exchange, connection, message, -32601)
            return
        body = exchange.body
        if quirks.header_into_params and header is not None and method in SESSION_METHODS:
            body = json.dumps({**message, "params": {**params, "sessionId": header}}).encode()
        if "id" in message:
            key = json.dumps(message["id"])
            connection.calls[key] = {**message, "stream": session}
        if self.has("empty 200 for a POST"):
            await exchange.respond(200)
        else:
            await exchange.respond(202)
        connection.to_agent(body)

    def _lacks_header(self, method: str, named: Any, header: str | None) -> bool:
        if header is not None:
            return False
        match self.quirks.header_for:
            case "nothing":
                return False
            case "sessions":
                return method in SESSION_METHODS or isinstance(named, str)
            case "java":
                return isinstance(named, str) and method not in REOPENING
            case methods:
                return method in methods

    async def _answer(
        self, exchange: Exchange, connection: Connection, message: Json, header: str | None
    ) -> None:
        """Take the client's answer to a request of the agent."""
        stream = connection.asked.get(json.dumps(message.get("id")))
        missing = header is None and stream is not None and self.quirks.answers_need_header
        wrong = header is not None and stream is not None and header != stream
        if missing or (wrong and not self.has("any session for answers")):
            await self._refuse(exchange, 400, "another session")
            return
        await exchange.respond(202)
        connection.to_agent(exchange.body)

    async def _answer_error(
        self, exchange: Exchange, connection: Connection, message: Json, code: int
    ) -> None:
        await exchange.respond(202)
        if "id" in message:
            error = {"code": code, "message": "not here"}
            answer = {"jsonrpc": "2.0", "id": message["id"], "error": error}
            connection.stream(None).put(json.dumps(answer).encode())

    # GET.

    async def _get(self, exchange: Exchange) -> None:
        accepted = exchange.header("Accept") or ""
        takes = "text/event-stream" in accepted or (self.quirks.accepts_any and "*/*" in accepted)
        if not takes and not self.has("any Accept"):
            await self._refuse(exchange, 406, "text/event-stream is needed")
            return
        connection = await self._known(exchange)
        if connection is None:
            return
        session = exchange.header("Acp-Session-Id")
        unknown = session is not None and session not in connection.sessions
        status = self.quirks.get_unknown_session
        if session is not None and self.has("no session streams"):
            unknown, status = True, 404
        if unknown and status != 200:
            await self._refuse(exchange, status, "unknown session", -32002)
            return
        stream = connection.stream(session)
        if stream.readers and not self.has("many readers"):
            if self.quirks.second_reader == "refuse":
                await self._refuse(exchange, 409, "the stream has a reader", -32603)
                return
            if self.quirks.second_reader == "takeover":
                for reader in stream.readers:
                    reader.is_over = True
                stream.changed.set()
        await self._stream(exchange, connection, session, stream)

    async def _stream(
        self, exchange: Exchange, connection: Connection, session: str | None, stream: Stream
    ) -> None:
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        if self.quirks.repeats_headers:
            headers |= {
                "Cache-Control": "no-cache, no-transform",
                "X-Accel-Buffering": "no",
                "Acp-Connection-Id": connection.id,
            }
            if session is not None:
                headers["Acp-Session-Id"] = session
        reader = Reader(exchange)
        stream.readers.append(reader)
        watching = asyncio.ensure_future(exchange.watch())
        gone = asyncio.ensure_future(exchange.is_gone.wait())
        try:
            await exchange.start_stream(headers)
            if self.quirks.opening_comment:
                await exchange.send(self.quirks.opening_comment)
            if self.quirks.retry_ms is not None:
                await exchange.send(b"retry: %d\n\n" % self.quirks.retry_ms)
            await self._replay(exchange, stream)
            while not reader.is_over and not exchange.is_gone.is_set():
                await self._send_waiting(exchange, stream)
                stream.changed.clear()
                if reader.is_over:
                    break
                changed = asyncio.ensure_future(stream.changed.wait())
                done, _ = await asyncio.wait(
                    (changed, gone),
                    timeout=self.quirks.keepalive_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                changed.cancel()
                if not done and self.quirks.comment:
                    await exchange.send(self.quirks.comment)
            if reader.cut:
                exchange.abort()
            elif not exchange.is_gone.is_set():
                await exchange.end()
        except OSError:
            exchange.keeps_open = False
        finally:
            stream.readers.remove(reader)
            for task in (watching, gone):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait((watching, gone))
            if exchange.is_gone.is_set():
                exchange.keeps_open = False

    async def _replay(self, exchange: Exchange, stream: Stream) -> None:
        last = exchange.header("Last-Event-ID")
        if not self.quirks.event_ids or last is None or self.has("nothing is replayed"):
            return
        stream.waiting = [item for item in stream.sent if item[0] > int(last)] + stream.waiting

    async def _send_waiting(self, exchange: Exchange, stream: Stream) -> None:
        while stream.waiting:
            number, message = stream.waiting.pop(0)
            event = b"data: " + message + b"\n\n"
            if self.has("named events"):
                event = b"event: message\n" + event
            if self.quirks.event_ids:
                event = b"id: %d\n" % number + event
                stream.sent = [*stream.sent, (number, message)][-1000:]
            try:
                await exchange.send(event)
            except OSError:
                stream.waiting.insert(0, (number, message))
                raise

    # DELETE.

    async def _delete(self, exchange: Exchange) -> None:
        connection = self._connection(exchange)
        is_named = exchange.header("Acp-Connection-Id") is not None
        if connection is None and is_named and self.quirks.delete_unknown == 202:
            await exchange.respond(202)
            return
        if (connection := await self._known(exchange)) is None:
            return
        await exchange.respond(204 if self.has("204 for DELETE") else 202)
        await connection.aclose()

    # WebSocket.

    async def _websocket(self, exchange: Exchange) -> None:
        quirks = self.quirks
        own = (None, f"http://127.0.0.1:{self.raw.port}")
        if exchange.header("Origin") not in own and not self.has("any origin"):
            await self._refuse(exchange, 403, "another origin")
            return
        connection = Connection(self, secrets.token_hex(16))
        headers: dict[str, str] = {}
        if quirks.ws_id:
            headers["Acp-Connection-Id"] = connection.id
        if self.has("compression") and exchange.header("Sec-WebSocket-Extensions"):
            headers["Sec-WebSocket-Extensions"] = "permessage-deflate"
        if self.has("cookies"):
            headers["Set-Cookie"] = "route=a1; Path=/; HttpOnly"
        state: Json = {"initialized": False}
        if self._bearer in (exchange.header("Sec-WebSocket-Protocol") or "").split(", "):
            chosen = self._bearer if self.has("token sent back") else "acp.bearer"
            headers["Sec-WebSocket-Protocol"] = chosen
        messages: asyncio.Queue[bytes] = asyncio.Queue()
        socket = await exchange.upgrade(headers, messages.put_nowait)
        socket.takes_binary = self.has("binary messages")
        self.sockets.append(socket)
        self.connections[connection.id] = connection
        connection.on_message = lambda text: (
            None if socket.close_code is not None else socket.send_text(text)
        )
        await connection.start()
        ended = asyncio.ensure_future(socket.wait(lambda: False, 3600))
        first_s = quirks.ws_first_message_s
        try:
            while not ended.done():
                getting = asyncio.ensure_future(messages.get())
                waiting = quirks.ws_ping_s if state["initialized"] else first_s
                done, _ = await asyncio.wait(
                    (getting, ended), timeout=waiting, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    getting.cancel()
                    if not state["initialized"]:
                        await socket.aclose(1008, "no message")
                        break
                    socket.send_ping()
                    continue
                if not getting.done():
                    getting.cancel()
                    break
                await self._ws_message(socket, connection, state, getting.result())
        finally:
            ended.cancel()
            socket.abort()
            await connection.aclose()

    async def _ws_message(
        self, socket: RawSocket, connection: Connection, state: Json, text: bytes
    ) -> None:
        quirks = self.quirks
        if len(text) > quirks.ws_limit:
            if not self.has("any size"):
                await socket.aclose(1009, "too large")
            return
        try:
            message = json.loads(text)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            code = -32700 if message is None else -32600
            match quirks.ws_malformed:
                case "answer":
                    error = {"code": code, "message": "not a message"}
                    answer = {"jsonrpc": "2.0", "id": None, "error": error}
                    socket.send_text(json.dumps(answer).encode())
                case "close":
                    await socket.aclose(1002, "not a message")
                case "skip":
                    pass
            return
        method = message.get("method")
        if not state["initialized"]:
            if method == "initialize" and message.get("id") is not None:
                state["initialized"] = True
            elif method is not None and quirks.ws_not_initialized == "close":
                code = 1011 if self.has("1011 for everything") else 1002
                reason = "initialize is first"
                if self.has("tracebacks in errors"):
                    reason = 'Traceback: File "/agent.py", line 1'
                if not self.has("any first message"):
                    await socket.aclose(code, reason)
                    return
        elif method == "initialize" and not self.has("initialize again"):
            error = {"code": -32600, "message": "already initialized"}
            answer = {"jsonrpc": "2.0", "id": message.get("id"), "error": error}
            socket.send_text(json.dumps(answer).encode())
            return
        connection.to_agent(text)


__all__ = ("SERVER_PRESETS", "QuirkServer", "ServerQuirks")
