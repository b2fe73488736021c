"""HTTP and WebSocket: how the client reads, and what it does when streams end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress

from accord_conformance.client.context import ClientContext, ClientGone, Json
from accord_conformance.client.fixtures import ABSENT_METHOD
from accord_conformance.client.network import HttpEnd, NetworkRules, SocketEnd
from accord_conformance.harness import NoResponse, NotExercised, scenario

LARGE_BYTES = 31 * 1024 * 1024
LARGE_S = 30.0
REOPEN_S = 8.0
SETTLE_S = 3.0  # for tries to open the stream
MOMENT_S = 1.0

# Ways to write an event, by their descriptions.
_EVENT_FORMATS: dict[str, Callable[[bytes], bytes]] = {
    "CR LF as line ends": lambda text: b"data: " + text + b"\r\n\r\n",
    "CR as line ends": lambda text: b"data: " + text + b"\r\r",
    "no space after `data:`": lambda text: b"data:" + text + b"\n\n",
    "a comment before the data": lambda text: b": a comment\n:\ndata: " + text + b"\n\n",
    "the data in two lines": lambda text: b"data: {\ndata: " + text[1:] + b"\n\n",
    "data before it that is not an object": lambda text: b"data: 42\n\ndata: " + text + b"\n\n",
    "an unknown field": lambda text: b"accord: check\ndata: " + text + b"\n\n",
}


def _http(context: ClientContext) -> HttpEnd:
    assert isinstance(context.network, HttpEnd)
    return context.network


def _socket(context: ClientContext) -> SocketEnd:
    assert isinstance(context.network, SocketEnd)
    return context.network


def _rules(context: ClientContext) -> NetworkRules:
    assert context.network is not None
    return context.network.rules


async def _answers(context: ClientContext, rule: str, expected: str, within_s: float = 0) -> bool:
    """Judge that the client answers a request of the connection."""
    call = context.connection.send_request(ABSENT_METHOD, {})
    with suppress(NoResponse):
        await context.connection.wait_for_response(call, within_s=within_s or None)
    gone = context.connection.is_closed
    passed = call.response is not None
    got = "it disconnected" if gone else "no response"
    context.judge(rule, passed, call, expected=expected, got=got)
    if gone:
        raise ClientGone("it disconnected")
    return passed


@scenario("network/events", "R-HTTP-28", media=("http",))
async def _events(context: ClientContext) -> None:
    """Requests come in events that are written in all ways that the format allows."""
    for why, write in _EVENT_FORMATS.items():
        _http(context).format_next = write
        await _answers(context, "R-HTTP-28", f"a response to a request in an event with {why}")


@scenario("network/large-events", "R-HTTP-49", media=("http",))
async def _large_events(context: ClientContext) -> None:
    """A request has 31 MiB."""
    await _large(context, "R-HTTP-49")


async def _large(context: ClientContext, rule: str) -> None:
    call = context.connection.send_request(ABSENT_METHOD, {"text": "x" * LARGE_BYTES})
    with suppress(NoResponse):
        await context.connection.wait_for_response(call, within_s=LARGE_S)
    got = "it disconnected" if context.connection.is_closed else "no response"
    expected = "a response to a request of 31 MiB"
    # Without the frame, which is too large for a report.
    seen = _rules(context).frame(b"a request of 31 MiB", by_client=False)
    context.judge(rule, call.response is not None, seen, expected=expected, got=got)
    if context.connection.is_closed:
        raise ClientGone("it disconnected")


@scenario("network/reopened-stream", "R-HTTP-41", "R-HTTP-42", "R-HTTP-43", media=("http",))
async def _reopened(context: ClientContext) -> None:
    """The stream of the session ends in order, in the middle of the turn."""
    end, session = _http(context), context.session.id
    end.has_ids = True
    try:
        context.say("The stream of this session ends now.")
        # The client has read it when it answers.
        call = context.connection.send_request(ABSENT_METHOD, {"sessionId": session})
        await context.connection.wait_for_response(call)
        last = end.last_event_id(session)
    finally:
        end.has_ids = False
    before = len(end.gets)
    end.end_stream(session)
    again = await end.wait_for_get(session, before, REOPEN_S)
    seen = end.rules.frame(b"the end of a stream", by_client=False)
    context.judge(
        "R-HTTP-41",
        again is not None,
        seen,
        expected=f"the stream is opened again within {REOPEN_S:g} s",
        got="it disconnected" if context.connection.is_closed else "no request",
    )
    if again is None:
        if context.connection.is_closed:
            raise ClientGone("it disconnected")
        raise NotExercised("the stream of the session is closed")
    given = again.header("Last-Event-ID")
    if given is not None:
        context.judge(
            "R-HTTP-43",
            given == str(last),
            end.rules.evidence(again),
            expected=f"Last-Event-ID: {last}",
            got=given,
        )
    call = context.connection.send_request(ABSENT_METHOD, {"sessionId": session})
    with suppress(NoResponse):
        await context.connection.wait_for_response(call)
    context.judge(
        "R-HTTP-42",
        call.response is not None and not context.cancelled,
        call,
        expected="a turn that continues on the stream that was opened again",
        got="it cancelled the turn" if context.cancelled else "no response",
    )


@scenario("network/refused-stream", "R-HTTP-37", media=("http",))
async def _refused(context: ClientContext) -> None:
    """The stream of the session ends, and the client may not open it again."""
    end, session = _http(context), context.session.id
    before = len(end.gets)
    end.refused = 404
    try:
        end.end_stream(session)
        if await end.wait_for_get(session, before, REOPEN_S) is None:
            raise NotExercised("the client did not open the stream again")
        context.may_leave = True
        await asyncio.sleep(SETTLE_S)
        if end.rules.ended_by_client:
            raise NotExercised("the client ended the connection in order")
        await _answers(context, "R-HTTP-37", "a response on the stream of the connection")
    finally:
        end.refused = None


@scenario("network/redirect", "R-HTTP-48", media=("http",))
async def _redirect(context: ClientContext) -> None:
    """The response to a POST is a redirect."""
    end = _http(context)
    end.redirects = context.may_leave = True
    call = context.connection.send_request(ABSENT_METHOD, {})
    with suppress(NoResponse):
        await context.connection.wait_until(lambda: not end.redirects, "POST")
    if end.redirects:
        end.redirects = False
        raise NotExercised("the client sent nothing")
    await asyncio.sleep(MOMENT_S)
    context.judge(
        "R-HTTP-48",
        end.followed is None,
        end.rules.evidence(end.followed) if end.followed is not None else call,
        expected="no request to the target of the redirect",
        got="it followed the redirect",
    )


@scenario("network/binary", "R-WS-03", media=("websocket",))
async def _binary(context: ClientContext) -> None:
    """A request comes as a binary message."""
    socket = _socket(context).socket
    assert socket is not None
    before = len(socket.texts)
    body: Json = {"jsonrpc": "2.0", "id": "in binary", "method": ABSENT_METHOD, "params": {}}
    socket.send_binary(json.dumps(body).encode())
    await _answers(context, "R-WS-03", "a response to the text message after a binary one")
    strays = [text for text in socket.texts[before:] if b"in binary" in text]
    seen = [_rules(context).frame(text) for text in strays]
    context.judge(
        "R-WS-03", not strays, *seen, expected="no response to a binary message", got="a response"
    )


@scenario("network/malformed-messages", "R-WS-09", media=("websocket",))
async def _malformed(context: ClientContext) -> None:
    """Messages come that are not JSON, or an array."""
    socket = _socket(context).socket
    assert socket is not None
    for text, code in ((b'{"jsonrpc":"2.0","id":', -32700), (b"[]", -32600)):
        before = len(socket.texts)
        sent = context.send(text)
        await context.agent.is_alive()
        answers = [one for one in socket.texts[before:] if str(code).encode() in one]
        context.judge(
            "R-WS-09",
            bool(answers),
            sent,
            expected=f"error {code} with a null id",
            got="it disconnected" if context.connection.is_closed else "no such response",
        )
        if context.connection.is_closed:
            raise ClientGone("it disconnected")


@scenario("network/large-messages", "R-WS-13", media=("websocket",))
async def _large_messages(context: ClientContext) -> None:
    """A request has 31 MiB."""
    await _large(context, "R-WS-13")


NETWORK = (_events, _large_events, _binary, _malformed, _large_messages)
# After these, the client may have failed the turn.
LAST_SCENARIOS = (_reopened, _refused, _redirect)
