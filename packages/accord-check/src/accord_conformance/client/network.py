"""A client that connects by HTTP or WebSocket: the kit's end, and judging how it uses them.

`NetworkRules` judges the requests of one connection. `HttpEnd` and `SocketEnd` are the transports
of the kit for it; `served_run` accepts the connections. They need the extra `remote`.
"""

from __future__ import annotations

import asyncio
import json
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from accord.text.lenient_json import is_object
from accord.text.redact import is_secret_header
from accord.transports.base import Frame as Bytes
from accord.transports.base import NullReceiver, Receiver, Transport
from accord_conformance.judges.base import make_finding
from accord_conformance.network import Exchange, RawSocket
from accord_conformance.reports.report import Report
from accord_conformance.traffic.message import Frame, Medium

Json: TypeAlias = dict[str, Any]

NETWORK_RULES = (
    "R-HTTP-04",
    "R-HTTP-07",
    "R-HTTP-08",
    "R-HTTP-09",
    "R-HTTP-10",
    "R-HTTP-15",
    "R-HTTP-16",
    "R-HTTP-18",
    "R-HTTP-20",
    "R-HTTP-25",
    "R-HTTP-32",
    "R-HTTP-33",
    "R-HTTP-36",
    "R-WS-02",
    "R-WS-03",
    "R-WS-10",
    "R-WS-12",
    "R-WS-14",
)
SESSION_METHODS = frozenset(
    f"session/{name}"
    for name in (
        "cancel",
        "close",
        "delete",
        "fork",
        "load",
        "prompt",
        "resume",
        "set_config_option",
        "set_mode",
    )
)
REOPENING = ("session/load", "session/resume")
_SHOWN = 2000


class NetworkRules:
    """Judges the requests of one connection; all findings go into `report`."""

    def __init__(self, medium: Medium) -> None:
        self.report = Report(medium=medium)
        self.where = ""
        self.opened: set[str | None] = set()  # the sessions whose streams were opened once
        self.children: dict[str, Frame] = {}  # announced child sessions without a stream
        self.ended_by_client = False
        self.cookie: str | None = None
        self._began = time.monotonic()
        self._number = 0

    def judge(
        self, rule: str, passed: bool, *seen: Frame, expected: str = "", got: str = ""
    ) -> None:
        """Add a finding."""
        finding = make_finding(
            rule, passed, "client", *seen, expected=expected, got=got, where=self.where
        )
        self.report.add(finding)

    def frame(self, text: bytes, *, by_client: bool = True) -> Frame:
        """Return evidence."""
        self._number += 1
        now = time.monotonic() - self._began
        return Frame(self._number, now, "client" if by_client else "agent", text[:_SHOWN])

    def evidence(self, exchange: Exchange) -> Frame:
        """Return a request as evidence, without secrets."""
        fields = [
            f"{name}: {value}"
            for name, value in exchange.headers.fields
            if not is_secret_header(name)
        ]
        first = f"{exchange.method} {exchange.path}"
        return self.frame("\n".join((first, *fields)).encode() + b"\n\n" + exchange.body)

    # HTTP.

    def on_request(self, exchange: Exchange, *, is_initialize: bool) -> None:
        """Judge the headers of any request."""
        seen = self.evidence(exchange)
        if exchange.method == "POST":
            kind = (exchange.header("Content-Type") or "").partition(";")[0].strip().lower()
            self.judge(
                "R-HTTP-07",
                kind == "application/json",
                seen,
                expected="Content-Type application/json",
                got=kind or "no Content-Type",
            )
        if exchange.method == "GET":
            accepted = exchange.header("Accept") or ""
            self.judge(
                "R-HTTP-08",
                "text/event-stream" in accepted,
                seen,
                expected="Accept with text/event-stream",
                got=accepted or "no Accept",
            )
        if is_initialize:
            return
        has_id = exchange.header("Acp-Connection-Id") is not None
        self.judge("R-HTTP-09", has_id, seen, expected="Acp-Connection-Id", got="no such header")
        has_version = exchange.header("Acp-Protocol-Version") is not None
        self.judge(
            "R-HTTP-18", has_version, seen, expected="Acp-Protocol-Version", got="no such header"
        )
        if self.cookie is not None:
            found = exchange.header("Cookie") or ""
            self.judge(
                "R-HTTP-04",
                self.cookie in found,
                seen,
                expected="the cookie that the server has set",
                got="another cookie" if found else "no cookie",
            )

    def on_message(
        self, exchange: Exchange, message: Json, stream: str | None, *, is_answer: bool
    ) -> None:
        """Judge the session header of a message; an answer belongs to `stream`."""
        seen = self.evidence(exchange)
        header = exchange.header("Acp-Session-Id")
        if is_answer:
            if stream is not None:
                for rule in ("R-HTTP-25", "R-HTTP-36"):
                    self.judge(
                        rule,
                        header == stream,
                        seen,
                        expected="Acp-Session-Id of the stream of the request",
                        got="no such header" if header is None else "another session",
                    )
            return
        method = message.get("method")
        params = message.get("params")
        session = params.get("sessionId") if is_object(params) else None
        if method == "$/cancel_request":
            self.judge(
                "R-HTTP-20", header is None, seen, expected="no Acp-Session-Id", got="the header"
            )
            return
        if method not in SESSION_METHODS and not isinstance(session, str):
            return
        for rule in ("R-HTTP-10", "R-HTTP-36"):
            self.judge(
                rule,
                header is not None and header == (session or header),
                seen,
                expected="Acp-Session-Id of the session",
                got="no such header" if header is None else "another session",
            )
        if isinstance(session, str):
            self.judge(
                "R-HTTP-16" if method in REOPENING else "R-HTTP-15",
                session in self.opened,
                seen,
                expected="a stream of the session before the first POST for it",
                got=f"{method} without a stream",
            )

    def on_sent(self, message: Json, text: bytes) -> None:
        """Note a child session that the kit announces."""
        params = message.get("params")
        update = params.get("update") if is_object(params) else None
        if is_object(update) and update.get("sessionUpdate") == "subagent_update":
            child = update.get("sessionId")
            if isinstance(child, str) and child not in self.opened:
                self.children.setdefault(child, self.frame(text, by_client=False))

    def on_stream(self, session: str | None) -> None:
        """Note a stream that the client has opened."""
        self.opened.add(session)
        if session is not None and self.children.pop(session, None) is not None:
            self.judge("R-HTTP-33", True)

    def on_http_end(self) -> None:
        """Judge what only the end of a connection shows."""
        for announced in self.children.values():
            self.judge(
                "R-HTTP-33",
                False,
                announced,
                expected="a stream for the announced child session",
                got="none",
            )
        self.judge(
            "R-HTTP-32",
            self.ended_by_client,
            self.frame(b"the end of the connection"),
            expected="DELETE at the end of the connection",
            got="none",
        )

    # WebSocket.

    def on_handshake(self, exchange: Exchange) -> None:
        """Judge what a handshake offers."""
        names = ("Sec-WebSocket-Protocol", "Sec-WebSocket-Extensions")
        offered = [name for name in names if exchange.header(name) is not None]
        self.judge(
            "R-WS-12",
            not offered,
            self.evidence(exchange),
            expected="no subprotocol and no extension",
            got=", ".join(offered),
        )

    def on_first_text(self, text: bytes) -> None:
        """Judge the first message of a socket."""
        try:
            message = json.loads(text)
        except ValueError:
            message = None
        is_first = is_object(message) and message.get("method") == "initialize"
        seen = self.frame(text)
        self.judge("R-WS-10", True)
        self.judge(
            "R-WS-02", is_first, seen, expected="initialize as the first message", got="another one"
        )

    def on_socket_end(self, *, texts: int, binaries: int, pings: int, seconds: float) -> None:
        """Judge what only the end of a socket shows."""
        seen = self.frame(b"the end of the connection")
        if not texts:
            self.judge(
                "R-WS-10",
                False,
                seen,
                expected="a client that continues without Acp-Connection-Id in the response",
                got="it disconnected",
            )
            return
        self.judge(
            "R-WS-03", not binaries, seen, expected="messages as text", got="a binary message"
        )
        if seconds > PING_S:
            self.judge("R-WS-14", pings > 0, seen, expected="a ping every 20 s", got="none")


PING_S = 21.0


# The kit's end of a client's connection by HTTP or WebSocket, as a transport.

KEEPALIVE_S = 15.0
COOKIE = "accord-check=1"
_STREAM = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}


class NetworkEnd(Transport):
    """A connection of a client under test. Frames that arrive before `start` wait."""

    def __init__(self, rules: NetworkRules) -> None:
        self.rules = rules
        self.closed = asyncio.Event()
        self.changed = asyncio.Event()
        self._receiver: Receiver | None = None
        self._early: list[bytes] = []

    async def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        early, self._early = self._early, []
        if early:
            asyncio.get_running_loop().call_soon(receiver.frames_received, early)

    def deliver(self, text: bytes) -> None:
        """Pass a message of the client on."""
        if self._receiver is None:
            self._early.append(text)
        else:
            asyncio.get_running_loop().call_soon(self._receiver.frames_received, [text])

    def ended(self) -> None:
        """The client has ended the connection."""
        if self.closed.is_set():
            return
        self.closed.set()
        if self._receiver is not None:
            receiver, self._receiver = self._receiver, NullReceiver()
            asyncio.get_running_loop().call_soon(receiver.eof_received, None)

    @property
    def congested(self) -> bool:
        return False

    def pause_reading(self) -> None:
        return

    def resume_reading(self) -> None:
        return

    @abstractmethod
    def write(self, frames: Sequence[Bytes]) -> None: ...


class SocketEnd(NetworkEnd):
    """A connection by WebSocket."""

    def __init__(self, rules: NetworkRules) -> None:
        super().__init__(rules)
        self.socket: RawSocket | None = None
        self._began = time.monotonic()

    def on_text(self, text: bytes) -> None:
        """Take a message of the client."""
        assert self.socket is not None
        if len(self.socket.texts) == 1:
            self.rules.on_first_text(text)
        self.deliver(text)

    async def serve(self, exchange: Exchange) -> None:
        """Accept the handshake, and return at the end of the connection."""
        self.rules.on_handshake(exchange)
        # Without `Acp-Connection-Id`: clients accept that (R-WS-10).
        self.socket = await exchange.upgrade({}, self.on_text)
        while self.socket.close_code is None:
            await self.socket.wait(lambda: False, KEEPALIVE_S)
        self.rules.on_socket_end(
            texts=len(self.socket.texts),
            binaries=len(self.socket.binaries),
            pings=self.socket.pings,
            seconds=time.monotonic() - self._began,
        )
        self.ended()

    def write(self, frames: Sequence[Bytes]) -> None:
        if self.socket is not None and self.socket.close_code is None:
            for frame in frames:
                self.socket.send_text(bytes(frame))

    async def aclose(self) -> None:
        if self.socket is not None:
            await self.socket.aclose()


class _Stream:
    """The events for one stream, and its reader."""

    def __init__(self) -> None:
        self.waiting: list[bytes] = []
        self.changed = asyncio.Event()
        self.reader: Exchange | None = None
        self.must_end = False
        self.last_id = 0


class HttpEnd(NetworkEnd):
    """A connection by streamable HTTP.

    `gets` has the requests for streams, each with its session. `refused` is a status for the
    streams of sessions, `redirects` answers the next POST with a redirect, and with `has_ids`
    events have ids.
    """

    def __init__(self, rules: NetworkRules, ident: str) -> None:
        super().__init__(rules)
        self.id = ident
        self.gets: list[tuple[str | None, Exchange]] = []
        self.posts = 0
        self.refused: int | None = None
        self.redirects = False
        self.has_ids = False
        self.format_next: Callable[[bytes], bytes] | None = None  # of the next message
        self.followed: Exchange | None = None  # the redirect
        self.last_seen = time.monotonic()
        self.open_requests = 0
        self._streams: dict[str | None, _Stream] = {}
        self._calls: dict[str, str | None] = {}  # of the client, with the stream of the answer
        self._asked: dict[str, str | None] = {}  # of the kit, with their stream
        self._first: asyncio.Future[bytes] | None = None

    # Requests of the client.

    async def handle(self, exchange: Exchange) -> None:
        """Answer a request."""
        self.open_requests += 1
        try:
            match exchange.method:
                case "POST":
                    await self._post(exchange)
                case "GET":
                    await self._get(exchange)
                case "DELETE":
                    self.rules.on_request(exchange, is_initialize=False)
                    self.rules.ended_by_client = True
                    await exchange.respond(202)
                    self.ended()
                case _:
                    await exchange.respond(405)
        finally:
            self.open_requests -= 1
            self.last_seen = time.monotonic()
            self.changed.set()

    async def initialize(self, exchange: Exchange) -> None:
        """Answer the `initialize` request that has created this connection."""
        self.open_requests += 1
        try:
            self.rules.on_request(exchange, is_initialize=True)
            self._first = asyncio.get_running_loop().create_future()
            self.deliver(exchange.body)
            body = await self._first
            self.rules.cookie = COOKIE
            headers = {
                "Content-Type": "application/json",
                "Acp-Connection-Id": self.id,
                "Set-Cookie": f"{COOKIE}; Path=/",
            }
            await exchange.respond(200, body, headers)
        finally:
            self.open_requests -= 1
            self.last_seen = time.monotonic()

    async def _post(self, exchange: Exchange) -> None:
        self.posts += 1
        self.rules.on_request(exchange, is_initialize=False)
        if self.redirects:
            self.redirects = False
            await exchange.respond(307, b"", {"Location": f"{exchange.path}/redirected"})
            return
        message: Any = None
        with suppress(ValueError):
            message = json.loads(exchange.body)
        if not is_object(message):
            self.deliver(exchange.body)
            await exchange.respond(400)
            return
        key = json.dumps(message.get("id"))
        is_answer = "method" not in message
        stream = self._asked.get(key) if is_answer else None
        self.rules.on_message(exchange, message, stream, is_answer=is_answer)
        if not is_answer and "id" in message:
            params = message.get("params")
            named = params.get("sessionId") if is_object(params) else None
            session = exchange.header("Acp-Session-Id") or named
            is_load = message["method"] == "session/load"
            self._calls[key] = None if is_load or not isinstance(session, str) else session
        await exchange.respond(202)
        self.deliver(exchange.body)

    async def _get(self, exchange: Exchange) -> None:
        session = exchange.header("Acp-Session-Id")
        self.rules.on_request(exchange, is_initialize=False)
        self.gets.append((session, exchange))
        self.changed.set()
        if session is not None and self.refused is not None:
            await exchange.respond(self.refused)
            return
        self.rules.on_stream(session)
        stream = self._stream(session)
        if stream.reader is not None and not stream.reader.is_gone.is_set():
            await exchange.respond(409)
            return
        stream.reader, stream.must_end = exchange, False
        watching = asyncio.ensure_future(exchange.watch())
        try:
            await self._send_events(exchange, session, stream)
        except OSError:
            exchange.keeps_open = False
        finally:
            watching.cancel()
            await asyncio.wait([watching])
            if exchange.is_gone.is_set():
                exchange.keeps_open = False
            if stream.reader is exchange:
                stream.reader = None

    async def _send_events(self, exchange: Exchange, session: str | None, stream: _Stream) -> None:
        headers = {**_STREAM, "Acp-Connection-Id": self.id}
        if session is not None:
            headers["Acp-Session-Id"] = session
        await exchange.start_stream(headers)
        await exchange.send(b":\n\n")
        gone = asyncio.ensure_future(exchange.is_gone.wait())
        try:
            while not (stream.must_end or exchange.is_gone.is_set() or self.closed.is_set()):
                while stream.waiting:
                    await exchange.send(stream.waiting[0])
                    del stream.waiting[0]
                stream.changed.clear()
                changed = asyncio.ensure_future(stream.changed.wait())
                done, _ = await asyncio.wait(
                    (changed, gone), timeout=KEEPALIVE_S, return_when=asyncio.FIRST_COMPLETED
                )
                changed.cancel()
                if not done:
                    await exchange.send(b":\n\n")
        finally:
            gone.cancel()
        if not exchange.is_gone.is_set():
            await exchange.end()

    # Messages of the kit.

    def write(self, frames: Sequence[Bytes]) -> None:
        for frame in frames:
            text = bytes(frame)
            message: Any = None
            with suppress(ValueError):
                message = json.loads(text)
            is_answer = is_object(message) and "method" not in message
            if is_answer and self._first is not None and not self._first.done():
                self._first.set_result(text)
                continue
            self._send(text, self._stream_of(message, text))

    def _stream_of(self, message: Any, text: bytes) -> str | None:
        if not is_object(message):
            return None
        key = json.dumps(message.get("id"))
        if "method" not in message:
            return self._calls.pop(key, None)
        self.rules.on_sent(message, text)
        params = message.get("params")
        session = params.get("sessionId") if is_object(params) else None
        found = session if isinstance(session, str) else None
        if "id" in message:
            self._asked[key] = found
        return found

    def _send(self, text: bytes, session: str | None) -> None:
        if self.format_next is not None:
            write, self.format_next = self.format_next, None
            self.send_bytes(write(text), session)
            return
        body = b"".join(b"data: " + line + b"\n" for line in text.splitlines() or [b""])
        stream = self._stream(session)
        if self.has_ids:
            stream.last_id += 1
            body = b"id: %d\n" % stream.last_id + body
        self.send_bytes(body + b"\n", session)

    def send_bytes(self, data: bytes, session: str | None) -> None:
        """Put bytes into a stream as they are."""
        stream = self._stream(session)
        stream.waiting.append(data)
        stream.changed.set()

    def last_event_id(self, session: str | None) -> int:
        """Return the id of the last event of a stream."""
        return self._stream(session).last_id

    def end_stream(self, session: str | None) -> None:
        """End a stream in order."""
        stream = self._stream(session)
        stream.must_end = True
        stream.changed.set()

    def _stream(self, session: str | None) -> _Stream:
        return self._streams.setdefault(session, _Stream())

    async def wait_for_get(
        self, session: str | None, after: int, within_s: float
    ) -> Exchange | None:
        """Wait for the next request for a stream, after the first `after` requests."""

        def found() -> Exchange | None:
            later = (one for which, one in self.gets[after:] if which == session)
            return next(later, None)

        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while found() is None and not self.closed.is_set():
                    self.changed.clear()
                    await self.changed.wait()
        return found()

    async def aclose(self) -> None:
        self.closed.set()
        if self._first is not None and not self._first.done():
            self._first.cancel()
        for stream in self._streams.values():
            stream.changed.set()
