"""Scenarios for agents at a URL: requests and streams of HTTP, and WebSocket.

They need the extra `remote`.
"""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.http_probe import HttpProbe, Json, address_of, initialize_message
from accord_conformance.harness import NotExercised, scenario
from accord_conformance.network import OpenStream, RawClient, RawSocket, Reply
from accord_conformance.rules.manifest import Authority

# Requests by HTTP: what a server accepts and refuses, and with which status.

_HTTP = ("http",)
BODY_BYTES = 17 * 1024 * 1024  # more than servers accept by default
_DECLARED_S = 1.0  # for a server to refuse a body by its length
_NOWHERE = "00000000-accord-check-nowhere"


def expect_status(
    context: AgentContext,
    rule: str,
    reply: Reply,
    statuses: tuple[int, ...],
    why: str,
    authority: Authority | None = None,
) -> bool:
    """Judge the status of a response; return whether it is one of these."""
    passed = reply.status in statuses
    named = " or ".join(map(str, statuses))
    context.judge(
        rule,
        passed,
        *reply.frames,
        expected=f"status {named} for {why}",
        got=reply.outcome,
        authority=authority,
    )
    return passed


@scenario(
    "http/initialize",
    "R-HTTP-05",
    "R-HTTP-23",
    "R-HTTP-24",
    "R-HTTP-45",
    media=_HTTP,
    isolated=True,
)
async def _initialize(context: AgentContext) -> None:
    """`initialize` is posted: alone, with an upgrade, with a null id, and a second time."""
    async with HttpProbe(context) as probe:
        message = initialize_message(context.version)
        # An upgrade that is not WebSocket, as some clients send it for HTTP/2.
        upgrade = {"Connection": "Upgrade", "Upgrade": "accord-check"}
        reply = await probe.post(message, headers=upgrade)
        expect_status(context, "R-HTTP-45", reply, (200,), "`initialize` with an unknown Upgrade")
        if (ident := reply.header("Acp-Connection-Id")) is not None:
            await probe.client.request("DELETE", {"Acp-Connection-Id": ident})
        reply = await probe.post(message)
        body, ident = reply.json(), reply.header("Acp-Connection-Id")
        is_answer = is_object(body) and body.get("id") == 0 and "result" in body
        passed = reply.status == 200 and is_answer and bool(ident)
        got = reply.outcome + ("" if ident else ", no id") + ("" if is_answer else ", no response")
        context.judge(
            "R-HTTP-05",
            passed,
            *reply.frames,
            expected="status 200, the response as body, and Acp-Connection-Id",
            got=got,
        )
        if not ident:
            raise NotExercised("no connection was created")
        probe.connection_id = ident
        again = await probe.post(initialize_message(context.version, 1))
        other = again.header("Acp-Connection-Id")
        is_new = again.status == 200 and other not in (None, ident)
        context.judge(
            "R-HTTP-23",
            again.status == 400 or is_new,
            *again.frames,
            expected="status 400, or another connection",
            got=again.outcome + (", the same connection" if other == ident else ""),
        )
        if is_new and other is not None:
            await probe.client.request("DELETE", {"Acp-Connection-Id": other})
        alone = {"Content-Type": "application/json", "Accept": "application/json"}
        null = json.dumps(initialize_message(context.version, None)).encode()
        reply = await probe.client.request("POST", alone, null)
        expect_status(context, "R-HTTP-24", reply, (400,), "`initialize` with a null id")


@scenario(
    "http/headers",
    "R-HTTP-07",
    "R-HTTP-08",
    "R-HTTP-09",
    "R-HTTP-26",
    "R-BATCH-11",
    "R-HTTP-50",
    media=_HTTP,
    isolated=True,
)
async def _headers(context: AgentContext) -> None:
    """Requests have wrong headers, unknown connections, and bodies that are not messages."""
    async with HttpProbe(context) as probe:
        await probe.initialize()
        refused: list[Reply] = []

        def judge(rule: str, reply: Reply, status: int, why: str) -> None:
            if expect_status(context, rule, reply, (status,), why):
                refused.append(reply)

        note: Any = {"jsonrpc": "2.0", "method": "_accord/unheard", "params": {}}
        plain = {"Content-Type": "text/plain"}
        judge("R-HTTP-07", await probe.post(note, headers=plain), 415, "text/plain")
        stream = await probe.client.open_stream({**probe.headers(), "Accept": "application/json"})
        judge("R-HTTP-08", stream.reply, 406, "a GET that does not accept an event stream")
        await stream.aclose()
        kind = {"Content-Type": "application/json", "Accept": "application/json"}
        body = json.dumps(note).encode()
        for method in ("POST", "GET", "DELETE"):
            fields = {"Accept": "text/event-stream"} if method == "GET" else kind
            sent = body if method == "POST" else b""
            without = await probe.client.request(method, fields, sent)
            rule = "R-HTTP-09"
            judge(rule, without, 400, f"a {method} without Acp-Connection-Id")
            fields = {**fields, "Acp-Connection-Id": _NOWHERE}
            unknown = await probe.client.request(method, fields, sent)
            if method != "DELETE":  # R-HTTP-13 is about that
                judge(rule, unknown, 404, f"a {method} with an unknown connection")
        judge("R-HTTP-26", await probe.post(b'{"jsonrpc": "2.0", '), 400, "a body that is not JSON")
        judge("R-HTTP-26", await probe.post(b"4711"), 400, "a number as body")
        with_charset = {"Content-Type": "Application/JSON; charset=utf-8"}
        reply = await probe.post(note, headers=with_charset)
        expect_status(context, "R-HTTP-26", reply, (202,), "a content type with parameters")
        reply = await probe.post(b'[{"jsonrpc": "2.0", "id": 91, "method": "_accord/in-batch"}]')
        body = reply.json()
        error = body.get("error") if is_object(body) else None
        code = error.get("code") if is_object(error) else None
        context.judge(
            "R-BATCH-11",
            reply.status == 400 and code == -32600,
            *reply.frames,
            expected="status 400 with error -32600 as the body, for an array",
            got=f"{reply.outcome}, error {code}",
        )
        for one in refused:
            _judge_error_body(context, one)


def _judge_error_body(context: AgentContext, reply: Reply) -> None:
    """Judge the body of a refusal: a JSON-RPC error, or one line of text."""
    text = reply.body.decode("utf-8", "replace").strip()
    found = reply.json()
    is_error = is_object(found) and is_object(found.get("error"))
    passed = not text or is_error or "\n" not in text
    reveals = "Traceback" in text or 'File "' in text or "    at " in text
    context.judge(
        "R-HTTP-50",
        passed and not reveals,
        *reply.frames,
        expected="a JSON-RPC error, or one line of text",
        got="a traceback" if reveals else "several lines",
    )


@scenario("http/methods", "R-HTTP-02", "R-HTTP-22", "R-HTTP-46", media=_HTTP, isolated=True)
async def _methods(context: AgentContext) -> None:
    """The endpoint gets the methods of the protocol, and others."""
    async with HttpProbe(context) as probe:
        await probe.initialize()
        request = probe.client.request
        reply, socket = await probe.client.upgrade()
        if socket is not None:
            await socket.aclose()
        expect_status(context, "R-HTTP-02", reply, (101, 426), "a WebSocket upgrade")
        reply = await request("PUT", {**probe.headers(), "Content-Type": "application/json"}, b"{}")
        expect_status(context, "R-HTTP-22", reply, (405,), "PUT")
        reply = await request("HEAD", {**probe.headers(), "Accept": "text/event-stream"})
        expect_status(context, "R-HTTP-46", reply, (405,), "HEAD")
        reply = await request("OPTIONS", probe.headers())
        is_preflight = reply.header("Access-Control-Allow-Methods") is not None
        statuses = (200, 204, 405) if is_preflight else (405,)
        expect_status(context, "R-HTTP-46", reply, statuses, "OPTIONS")
        reply = await request("DELETE", probe.headers())
        passed = reply.status not in (405, 501)
        context.judge(
            "R-HTTP-02", passed, *reply.frames, expected="DELETE is served", got=reply.outcome
        )


@scenario("http/large-body", "R-HTTP-22", media=_HTTP, isolated=True)
async def _large_body(context: AgentContext) -> None:
    """A POST is larger than servers accept."""
    async with HttpProbe(context) as probe:
        await probe.initialize()
        fields = {**probe.headers(), "Content-Type": "application/json"}
        declared = {**fields, "Content-Length": str(1 << 40)}
        reply = await probe.client.request("POST", declared, b"{", within_s=_DECLARED_S)
        if reply.status == 0:
            text = b'{"jsonrpc": "2.0", "method": "_accord/unheard", "params": {"text": "'
            body = text + b"long " * (BODY_BYTES // 5) + b'"}}'
            reply = await probe.client.request("POST", fields, body)
        expect_status(context, "R-HTTP-22", reply, (413,), "a body of 17 MiB")


@scenario("http/delete", "R-HTTP-13", media=_HTTP, isolated=True)
async def _delete(context: AgentContext) -> None:
    """The connection is deleted: its streams end, and its id is unknown."""
    async with HttpProbe(context) as probe:
        await probe.initialize()
        stream = probe.streams[None]
        reply = await probe.client.request("DELETE", probe.headers())
        expect_status(context, "R-HTTP-13", reply, (202,), "DELETE")
        ended = await probe.client.wait(lambda: stream.is_over)
        context.judge(
            "R-HTTP-13", ended, *reply.frames, expected="the stream ends", got="it is still open"
        )
        reply = await probe.client.request("DELETE", probe.headers())
        why = "DELETE of an unknown connection"
        expect_status(context, "R-HTTP-13", reply, (404,), why, authority="derived")
        probe.connection_id = None
        reply = await probe.client.request("DELETE", {})
        expect_status(context, "R-HTTP-13", reply, (400,), "DELETE without Acp-Connection-Id")


@scenario("http/login", "R-HTTP-19", media=_HTTP, isolated=True)
async def _login(context: AgentContext) -> None:
    """Requests have the ids of a connection, but no token."""
    if context.remote.options.token is None:
        raise NotExercised("the server needs no token")
    async with HttpProbe(context) as probe:
        await probe.initialize()
        note = json.dumps({"jsonrpc": "2.0", "method": "_accord/unheard"}).encode()
        fields = {**probe.headers(), "Content-Type": "application/json"}
        reply = await probe.client.request("POST", fields, note, login=False)
        expect_status(context, "R-HTTP-19", reply, (401, 403), "a connection id without a token")


@scenario("http/version-2-of-http", "R-HTTP-03", "R-HTTP-39", media=_HTTP, isolated=True)
async def _http2(context: AgentContext) -> None:
    """The client begins with HTTP/2, which most servers of the protocol do not have yet."""
    async with HttpProbe(context) as probe:
        reply = await probe.post(initialize_message(context.version))
        probe.connection_id = reply.header("Acp-Connection-Id")
        has_it, streams = await probe.client.max_streams()
        context.judge(
            "R-HTTP-03",
            has_it,
            *reply.frames,
            expected="a connection by HTTP/2",
            got="none",
            authority="derived",  # of the reference servers, one has it
        )
        if has_it:
            context.judge(
                "R-HTTP-39",
                streams is None or streams >= 1024,
                *reply.frames,
                expected="at least 1024 streams on one connection",
                got=str(streams),
            )


HTTP_REQUESTS = (_initialize, _headers, _methods, _large_body, _delete, _login, _http2)


# Streams by HTTP: where messages go, and how streams begin and end.

KEEPALIVE_S = 16.0
_OPENING_S = 1.0  # for a comment that is sent at once


@scenario(
    "http/streams", "R-HTTP-11", "R-HTTP-17", "R-HTTP-22", "R-HTTP-40", media=_HTTP, isolated=True
)
async def _streams(context: AgentContext) -> None:
    """Streams of the connection and of a session are opened, read twice, and opened again."""
    async with HttpProbe(context) as probe:
        await probe.initialize()
        session = await _new_session(context, probe)
        for which in (None, session):
            stream = probe.streams[which]
            kind = stream.reply.header("Content-Type") or ""
            context.judge(
                "R-HTTP-11",
                kind.startswith("text/event-stream"),
                *stream.reply.frames,
                expected="Content-Type text/event-stream",
                got=kind or "no Content-Type",
            )
            await _judge_opening(context, probe, stream, which)
        first = probe.streams[session]
        second = await probe.client.open_stream(probe.headers(session))
        replaced = second.status == 200 and await probe.client.wait(lambda: first.is_over, 2)
        context.judge(
            "R-HTTP-22",
            second.status == 409 or replaced,
            *second.reply.frames,
            expected="status 409 for a second reader, or the end of the first one",
            got="two readers" if second.status == 200 else second.reply.outcome,
        )
        await first.aclose()
        await second.aclose()
        again = await probe.open_stream(session)
        for _ in range(20):
            # The server may not know yet that the readers are gone.
            if again.status != 409:
                break
            await probe.client.wait(lambda: False, 0.1)
            again = await probe.open_stream(session)
        expect_status(context, "R-HTTP-17", again.reply, (200,), "a stream that is opened again")


async def _new_session(context: AgentContext, probe: HttpProbe) -> str:
    """Create a session whose stream has to exist."""
    try:
        return await probe.new_session()
    except NotExercised:
        refused = probe.client.frames[-2:]
        if refused and refused[-1].text.startswith(b"status 40"):
            context.judge(
                "R-HTTP-11",
                False,
                *refused,
                expected="a stream for a session that was created",
                got=refused[-1].text.split(b"\n")[0].decode(),
            )
        raise


async def _judge_opening(
    context: AgentContext, probe: HttpProbe, stream: OpenStream, session: str | None
) -> None:
    """Judge the headers of a stream, and the comment at its beginning."""
    headers = stream.reply.headers
    cache = headers.get("Cache-Control") or ""
    lacking = [
        *(["Acp-Connection-Id"] if headers.get("Acp-Connection-Id") is None else []),
        *(["Acp-Session-Id"] if session and headers.get("Acp-Session-Id") is None else []),
        *(["Cache-Control: no-cache, no-transform"] if "no-transform" not in cache else []),
        *(["X-Accel-Buffering: no"] if headers.get("X-Accel-Buffering") != "no" else []),
    ]
    if headers.get("Content-Encoding") is not None:
        lacking.append("an uncompressed body")
    if not await probe.client.wait(lambda: bool(stream.comments), _OPENING_S):
        lacking.append("a comment at once")
    context.judge(
        "R-HTTP-40",
        not lacking,
        *stream.reply.frames,
        expected="the headers of a stream, and a comment at once",
        got="without " + ", ".join(lacking),
    )


@scenario(
    "http/turn", "R-HTTP-06", "R-HTTP-12", "R-HTTP-20", "R-HTTP-28", media=_HTTP, isolated=True
)
async def _turn(context: AgentContext) -> None:
    """A prompt is posted; the responses and updates come on their streams."""
    async with HttpProbe(context) as probe:
        await probe.initialize()
        session = await probe.new_session()
        new = next(one for one in probe.messages() if _is_new_session(one[1]))
        _judge_stream(context, probe, new[0] is None, "session/new", "the connection's stream")
        message = probe.request("_accord/unknown")
        reply = await probe.post(message)
        expect_status(context, "R-HTTP-06", reply, (202,), "an accepted request")
        passed = not reply.body.strip()
        context.judge("R-HTTP-06", passed, *reply.frames, expected="an empty body", got="a body")
        cancel: Json = {"requestId": message["id"]}
        note = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": cancel}
        reply = await probe.post(note)
        why = "`$/cancel_request` without a session header"
        expect_status(context, "R-HTTP-20", reply, (200, 202, 204), why)
        stream, _ = await probe.prompt(session, "text")
        where = "the session's stream"
        _judge_stream(context, probe, stream == session, "session/prompt", where)
        strays = [
            one
            for found, one in probe.messages()
            if one.get("method") == "session/update" and found != _session_of(one)
        ]
        _judge_stream(context, probe, not strays, "session/update", where)
        for which in (None, session):
            for event in probe.streams[which].events:
                fields = {line.partition(b":")[0] for line in event.lines}
                context.judge(
                    "R-HTTP-28",
                    event.message is not None and fields <= {b"data", b"id", b"retry"},
                    event.frame,
                    expected="one JSON object as `data`",
                    got=", ".join(sorted(field.decode("utf-8", "replace") for field in fields)),
                )


def _judge_stream(
    context: AgentContext, probe: HttpProbe, passed: bool, what: str, where: str
) -> None:
    frames = [frame for frame in probe.client.frames if what.encode() in frame.text][-2:]
    context.judge(
        "R-HTTP-12", passed, *frames, expected=f"{what} on {where}", got="it is on another stream"
    )


def _is_new_session(message: Json) -> bool:
    result = message.get("result")
    return is_object(result) and "sessionId" in result


def _session_of(message: Json) -> Any:
    params = message.get("params")
    return params.get("sessionId") if is_object(params) else None


@scenario("http/session-headers", "R-HTTP-21", "R-HTTP-34", media=_HTTP, isolated=True)
async def _session_headers(context: AgentContext) -> None:
    """Requests name their session in the header, in the params, in both, or not at all."""
    async with HttpProbe(context) as probe:
        await probe.initialize()
        session = await probe.new_session()
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
        reply = await probe.post(cancel)
        expect_status(context, "R-HTTP-34", reply, (202,), "a session in the params only")
        reply = await probe.post({"jsonrpc": "2.0", "method": "session/cancel", "params": {}})
        expect_status(context, "R-HTTP-34", reply, (400,), "a session method without a session")
        reply = await probe.post(cancel, "another-session")
        expect_status(context, "R-HTTP-21", reply, (400,), "a header that contradicts the params")


@scenario("http/answers", "R-HTTP-35", media=_HTTP, isolated=True)
async def _answers(context: AgentContext) -> None:
    """A permission request is answered with a wrong session header, then with none."""
    async with HttpProbe(context) as probe:
        await probe.initialize()
        session = await probe.new_session()
        asked: list[Json] = []

        async def answer(stream: str | None, call: Json) -> None:
            if call["method"] != "session/request_permission":
                await probe.refuse(stream, call)
                return
            asked.append(call)
            options = call.get("params", {}).get("options")
            first = options[0] if is_array(options) and options else None
            chosen: Any = first.get("optionId") if is_object(first) else None
            outcome: Json = {"outcome": "selected", "optionId": chosen}
            body: Json = {"jsonrpc": "2.0", "id": call["id"], "result": {"outcome": outcome}}
            reply = await probe.post(body, "another-session")
            wrong = "a response with the header of another session"
            expect_status(context, "R-HTTP-35", reply, (400,), wrong)
            if reply.status == 202:
                return
            reply = await probe.post(body)
            if not expect_status(
                context, "R-HTTP-35", reply, (202,), "a response without a session header"
            ):
                await probe.post(body, stream)

        await probe.prompt(session, "permission", answer)
        if not asked:
            raise NotExercised("the agent requested no permission")


@scenario("http/event-ids", "R-HTTP-44", media=_HTTP, isolated=True)
async def _event_ids(context: AgentContext) -> None:
    """A stream with event ids is opened again with the first id: later events come again."""
    async with HttpProbe(context) as probe:
        await probe.initialize()
        session = await probe.new_session()
        await probe.prompt(session, "text")
        events = [
            event for event in probe.streams[session].events if _event_id(event.lines) is not None
        ]
        if len(events) < 2:
            raise NotExercised("the server sends no event ids")
        await probe.streams[session].aclose()
        first = _event_id(events[0].lines) or ""
        again = await probe.client.open_stream(probe.headers(session, Last_Event_ID=first))
        for _ in range(20):
            if again.status != 409:
                break
            await probe.client.wait(lambda: False, 0.1)
            again = await probe.client.open_stream(probe.headers(session, Last_Event_ID=first))
        came = await probe.client.wait(lambda: bool(again.events))
        same = came and again.events[0].message == events[1].message
        context.judge(
            "R-HTTP-44",
            same or again.status == 409,
            *again.reply.frames,
            expected="the event after the last one, or status 409",
            got="another event" if came else f"no event, {again.reply.outcome}",
        )
        await again.aclose()


def _event_id(lines: list[bytes]) -> str | None:
    for line in lines:
        if line.startswith(b"id:"):
            return line[3:].strip().decode("utf-8", "replace")
    return None


@scenario("http/keepalive", "R-HTTP-17", media=_HTTP, isolated=True)
async def _keepalive(context: AgentContext) -> None:
    """A stream is idle: the server sends a comment every 15 seconds."""
    context.wait_once()
    async with HttpProbe(context) as probe:
        await probe.initialize(log_in=False)
        stream = probe.streams[None]
        began = time.monotonic()
        await probe.client.wait(lambda: bool(stream.comments), 0.5)
        seen = len(stream.comments)
        left = KEEPALIVE_S - (time.monotonic() - began)
        came = await probe.client.wait(lambda: len(stream.comments) > seen, left)
        context.judge(
            "R-HTTP-17",
            came,
            *stream.reply.frames,
            expected=f"a comment within {KEEPALIVE_S:g} s on an idle stream",
            got="none",
        )


HTTP_STREAMS = (_keepalive, _streams, _turn, _session_headers, _answers, _event_ids)


# WebSocket connections: the handshake, the first message, sizes, and how they end.

_WEBSOCKET = ("websocket",)
ACCEPTED_BYTES = 31 * 1024 * 1024
REFUSED_BYTES = 33 * 1024 * 1024
PING_S = 21.0
FIRST_MESSAGE_S = 32.0
_CLOSE_S = 3.0
LARGE_S = 30.0
_ORIGIN = "https://accord-check.example"


class _SocketProbe:
    """A raw WebSocket connection; `reply` is the response to its handshake."""

    def __init__(self, client: RawClient, reply: Reply, socket: RawSocket) -> None:
        self.client, self.reply, self.socket = client, reply, socket

    def send(self, message: Any) -> None:
        """Send a message, or any text."""
        text = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.client.record_sent(text[:2000])
        self.socket.send_text(text)

    def answers(self, ident: Any) -> list[dict[str, Any]]:
        """Return the responses with an id."""
        parsed = (_parsed(text) for text in self.socket.texts)
        return [one for one in parsed if "method" not in one and one.get("id", "") == ident]

    async def wait_for_answer(self, ident: Any, within_s: float | None = None) -> bool:
        """Wait for a response; return whether it came."""
        within = self.client.within_s if within_s is None else within_s
        return await self.socket.wait(lambda: bool(self.answers(ident)), within)

    async def wait_for_close(self, within_s: float = _CLOSE_S) -> int | None:
        """Wait for the end of the connection; return its code, None if it is still open."""
        await self.socket.wait(lambda: False, within_s)
        return self.socket.close_code

    async def initialize(self, version: int) -> None:
        """Initialize; raise `NotExercised` if that fails."""
        self.send(initialize_message(version))
        if not await self.wait_for_answer(0):
            raise NotExercised("no response to initialize")


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if is_object(found) else {}


@asynccontextmanager
async def _connected(context: AgentContext, **headers: str) -> AsyncGenerator[_SocketProbe]:
    """Connect; raise `NotExercised` if the server refuses."""
    client = RawClient(address_of(context), within_s=context.settings.answer)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        reply, socket = await client.upgrade(named)
        if socket is None:
            raise NotExercised(f"the handshake was refused: {reply.outcome}")
        yield _SocketProbe(client, reply, socket)
    finally:
        await client.aclose()


@scenario("websocket/handshake", "R-WS-01", "R-WS-11", media=_WEBSOCKET, isolated=True)
async def _handshake(context: AgentContext) -> None:
    """The handshake offers nothing, then compression."""
    async with _connected(context) as probe:
        ident = probe.reply.header("Acp-Connection-Id")
        context.judge(
            "R-WS-01",
            bool(ident),
            *probe.reply.frames,
            expected="Acp-Connection-Id in the 101 response",
            got="none",
        )
        _judge_selection(context, probe.reply, "a handshake that offers nothing")
    async with _connected(context, Sec_WebSocket_Extensions="permessage-deflate") as probe:
        _judge_selection(context, probe.reply, "an offer of compression")


def _judge_selection(context: AgentContext, reply: Reply, why: str) -> None:
    names = ("Sec-WebSocket-Extensions", "Sec-WebSocket-Protocol")
    selected = [name for name in names if reply.header(name) is not None]
    context.judge(
        "R-WS-11",
        not selected,
        *reply.frames,
        expected=f"no extension and no subprotocol after {why}",
        got=", ".join(selected),
    )


@scenario(
    "websocket/first-message", "R-WS-02", "R-WS-07", "R-WS-16", media=_WEBSOCKET, isolated=True
)
async def _first_message(context: AgentContext) -> None:
    """The first message is another request, another notification, or has a null id."""
    null = initialize_message(context.version, None)
    request: Any = {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {}}
    note = {"jsonrpc": "2.0", "method": "_accord/unheard"}
    for first, why in ((request, "a request"), (note, "a notification"), (null, "a null id")):
        async with _connected(context) as probe:
            probe.send(first)
            code = await probe.wait_for_close()
            seen = probe.client.frames[-2:]
            context.judge(
                "R-WS-02",
                code is not None,
                *seen,
                expected=f"the connection is closed, because {why} is the first message",
                got="it is still open",
                authority="derived",  # the text demands only that the client begins with it
            )
            if code is None:
                continue
            context.judge(
                "R-WS-07", code == 1002, *seen, expected="close code 1002", got=f"code {code}"
            )
            reason = probe.socket.close_reason
            reveals = "Traceback" in reason or 'File "' in reason or ".py" in reason
            context.judge(
                "R-WS-16",
                not reveals,
                *seen,
                expected="a reason without details of the agent",
                got=reason,
            )


@scenario("websocket/binary", "R-WS-03", media=_WEBSOCKET, isolated=True)
async def _binary(context: AgentContext) -> None:
    """A request is sent as a binary message, then another one as text."""
    async with _connected(context) as probe:
        await probe.initialize(context.version)
        unknown: dict[str, Any] = {"jsonrpc": "2.0", "method": "_accord/unknown", "params": {}}
        probe.socket.send_binary(json.dumps({**unknown, "id": "in binary"}).encode())
        probe.send({**unknown, "id": "in text"})
        came = await probe.wait_for_answer("in text")
        ignored = not probe.answers("in binary") and not probe.socket.binaries
        got = "a response to the binary message" if came else "no response to the next one"
        context.judge(
            "R-WS-03",
            came and ignored,
            *probe.client.frames[-2:],
            expected="binary messages are ignored",
            got=got,
        )


@scenario("websocket/second-initialize", "R-WS-06", media=_WEBSOCKET, isolated=True)
async def _second_initialize(context: AgentContext) -> None:
    """`initialize` is sent again."""
    async with _connected(context) as probe:
        await probe.initialize(context.version)
        probe.send(initialize_message(context.version, "again"))
        await probe.wait_for_answer("again")
        answers = probe.answers("again")
        error = answers[0].get("error") if answers else None
        code = error.get("code") if is_object(error) else None
        context.judge(
            "R-WS-06",
            code == -32600 and probe.socket.close_code is None,
            *probe.client.frames[-2:],
            expected="error -32600, and an open connection",
            got=f"error {code}" if code is not None else "a result" if answers else "no response",
        )


@scenario("websocket/sizes", "R-WS-13", media=_WEBSOCKET, isolated=True)
async def _sizes(context: AgentContext) -> None:
    """Messages of 31 and of 33 MiB are sent."""
    async with _connected(context) as probe:
        await probe.initialize(context.version)
        probe.send(_large("large", ACCEPTED_BYTES))
        came = await probe.wait_for_answer("large", LARGE_S)
        code = probe.socket.close_code
        context.judge(
            "R-WS-13",
            came,
            *probe.client.frames[-1:],
            expected="a response to a message of 31 MiB",
            got="none" if code is None else f"the connection was closed with {code}",
        )
    async with _connected(context) as probe:
        await probe.initialize(context.version)
        probe.send(_large("too large", REFUSED_BYTES))
        code = await probe.wait_for_close(LARGE_S if came else _CLOSE_S)
        context.judge(
            "R-WS-13",
            # The connection may be cut before the code arrives, as the rest is not read.
            code in (1009, 1006),
            *probe.client.frames[-1:],
            expected="close code 1009 for a message of 33 MiB",
            got="an open connection" if code is None else f"code {code}",
        )


def _large(ident: str, size: int) -> bytes:
    head = f'{{"jsonrpc":"2.0","id":"{ident}","method":"_accord/unknown","params":{{"text":"'
    return head.encode() + b"x" * (size - len(head) - 3) + b'"}}'


@scenario("websocket/origin", "R-WS-05", media=_WEBSOCKET, isolated=True)
async def _origin(context: AgentContext) -> None:
    """A web page of another site connects."""
    client = RawClient(address_of(context), within_s=context.settings.answer)
    try:
        reply, socket = await client.upgrade({"Origin": _ORIGIN})
        context.judge(
            "R-WS-05",
            socket is None,
            *reply.frames,
            expected=f"status 403 for the origin {_ORIGIN}",
            got=reply.outcome,
        )
    finally:
        await client.aclose()


@scenario("websocket/subprotocol-token", "R-WS-18", media=_WEBSOCKET, isolated=True)
async def _subprotocol_token(context: AgentContext) -> None:
    """The token is in the list of subprotocols, which servers may accept."""
    token = context.remote.options.token
    if token is None:
        raise NotExercised("the server needs no token")
    client = RawClient(address_of(context), within_s=context.settings.answer)
    secret = "acp.bearer." + urlsafe_b64encode(token.encode()).decode().rstrip("=")
    try:
        offer = {"Sec-WebSocket-Protocol": f"acp.bearer, {secret}"}
        reply, socket = await client.upgrade(offer, login=False)
        if socket is None:
            raise NotExercised("the server accepts no token there")
        selected = reply.header("Sec-WebSocket-Protocol")
        context.judge(
            "R-WS-18",
            selected == "acp.bearer",
            *reply.frames,
            expected="the subprotocol acp.bearer is selected",
            got="the token was sent back" if selected == secret else "another subprotocol, or none",
        )
    finally:
        await client.aclose()


@scenario("websocket/ping", "R-WS-14", media=_WEBSOCKET, isolated=True)
async def _ping(context: AgentContext) -> None:
    """The connection is idle: the server sends a ping every 20 seconds."""
    context.wait_once()
    async with _connected(context) as probe:
        await probe.initialize(context.version)
        came = await probe.socket.wait(lambda: probe.socket.pings > 0, PING_S)
        context.judge(
            "R-WS-14",
            came,
            *probe.reply.frames,
            expected=f"a ping within {PING_S:g} s",
            got="none",
        )


@scenario("websocket/silence", "R-WS-15", media=_WEBSOCKET, isolated=True)
async def _silence(context: AgentContext) -> None:
    """The client sends nothing after the handshake."""
    context.wait_once()
    async with _connected(context) as probe:
        code = await probe.wait_for_close(FIRST_MESSAGE_S)
        context.judge(
            "R-WS-15",
            code == 1008,
            *probe.reply.frames,
            expected="close code 1008 within 30 s",
            got="an open connection" if code is None else f"code {code}",
        )


WEBSOCKET = (
    _silence,
    _ping,
    _handshake,
    _first_message,
    _binary,
    _second_initialize,
    _sizes,
    _origin,
    _subprotocol_token,
)
