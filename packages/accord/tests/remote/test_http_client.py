"""The streamable HTTP client transport, with servers that refuse, misbehave and go away."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from accord.errors import ConnectionLost, TransportError
from accord.transports import http as http_streams
from accord.transports import http as module
from accord.transports import http_client
from accord.transports.registry import CookieStore, RemoteOptions
from accord_conformance.network import Exchange
from remote.http_fake import (
    CUT,
    END,
    INITIALIZE,
    INITIALIZED,
    call,
    connected,
    event,
    fake,
    notice,
    result,
    started,
)
from requirement import requirement


@pytest.fixture(autouse=True)
def waiting_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_streams, "REOPEN_S", 0.01)
    monkeypatch.setattr(module, "DELETE_S", 0.2)


def errors(frames: list[bytes]) -> dict[int, dict[str, Any]]:
    """Return the errors by the id of their request."""
    decoded = [json.loads(frame) for frame in frames]
    return {one["id"]: one["error"] for one in decoded if "error" in one}


# Headers.


@requirement("R-HTTP-05", "R-HTTP-07", "R-HTTP-09", "R-HTTP-18")
async def test_first_post_creates_the_connection_and_the_rest_names_it() -> None:
    async with fake() as server:
        options = RemoteOptions(token="token-of-a-test")
        async with connected(server.url, options) as (transport, _):
            assert transport.connection_id == "c-1"
            transport.write([notice("_note")])
            await server.until(lambda: len(server.requests) == 3)
        first, stream, post, delete = server.requests
        assert [one.method for one in server.requests] == ["POST", "GET", "POST", "DELETE"]
        assert first.path == "/acp"
        assert first.header("Acp-Connection-Id") is None
        assert first.header("Acp-Protocol-Version") is None
        for one in (stream, post, delete):
            assert one.header("Acp-Connection-Id") == "c-1"
            assert one.header("Acp-Protocol-Version") == "1"
            assert one.header("Acp-Session-Id") is None
        for one in (first, post):
            assert one.header("Content-Type") == "application/json"
            assert "application/json" in (one.header("Accept") or "")
        assert stream.header("Accept") == "text/event-stream"
        assert {one.header("Authorization") for one in server.requests} == {
            "Bearer token-of-a-test"
        }


@requirement("R-HTTP-08", "R-HTTP-10", "R-HTTP-15", "R-HTTP-20")
async def test_messages_of_a_session_name_it_and_its_stream_is_opened_first() -> None:
    async with fake() as server, connected(server.url) as (transport, _):
        transport.write([call(1, "session/prompt", "s1"), notice("session/cancel", "s1")])
        await server.until(lambda: len(server.requests) == 5)
        transport.write([notice("$/cancel_request", requestId=1)])
        await server.until(lambda: len(server.requests) == 6)
        assert server.methods()[2:] == [
            "GET s1",
            "POST session/prompt s1",
            "POST session/cancel s1",
            "POST $/cancel_request",
        ]


@requirement("R-HTTP-15", "R-HTTP-33")
@pytest.mark.parametrize("method", ["session/new", "session/fork"])
async def test_stream_of_a_new_session_is_opened_by_the_result(method: str) -> None:
    async with fake() as server, connected(server.url) as (transport, heard):
        transport.write([call(1, method)])
        server.send(None, event(result(1, sessionId="s1")))
        await server.until(lambda: "GET s1" in server.methods())
        update = {"sessionUpdate": "subagent_update", "sessionId": "child"}
        server.send("s1", event(notice("session/update", "s1", update=update)))
        await server.until(lambda: "GET child" in server.methods())
        await heard.until(lambda: len(heard.frames) == 2)


@requirement("R-HTTP-36", "R-HTTP-25")
async def test_answer_names_the_session_of_the_stream_that_asked() -> None:
    async with fake() as server, connected(server.url) as (transport, heard):
        transport.write([call(1, "session/prompt", "s1")])
        server.send("s1", event(call(7, "session/request_permission", "s1")))
        server.send(None, event(call(8, "_ask")))
        await heard.until(lambda: len(heard.frames) == 2)
        transport.write([result(7), result(8)])
        await server.until(lambda: len(server.posts()) == 4)
        sent = {
            json.loads(one.body)["id"]: one.header("Acp-Session-Id")
            for one in server.requests
            if b'"result"' in one.body
        }
        assert sent == {7: "s1", 8: None}


# Order.


@requirement("R-HTTP-06", "R-HTTP-36")
async def test_held_post_delays_neither_answers_nor_other_sessions() -> None:
    held = asyncio.Event()

    async def hold(exchange: Exchange) -> None:
        if b'"session/prompt"' in exchange.body:
            await held.wait()
        await exchange.respond(202)

    async with fake() as server, connected(server.url) as (transport, heard):
        server.post = hold
        transport.write([call(1, "session/prompt", "s1"), notice("_after", "s1")])
        server.send("s1", event(call(7, "session/request_permission", "s1")))
        await heard.until(lambda: bool(heard.frames))
        transport.write([result(7), call(2, "session/set_mode", "s2"), call(3, "session/list")])
        await server.until(lambda: len(server.posts()) == 5)
        assert {one.get("method", "answer") for one in server.posts()[2:]} == {
            "answer",
            "session/set_mode",
            "session/list",
        }
        held.set()
        await server.until(lambda: len(server.posts()) == 6)
        assert server.posts()[-1]["method"] == "_after"


async def test_messages_of_a_session_are_sent_in_order() -> None:
    async with fake() as server, connected(server.url) as (transport, _):
        transport.write([notice("_count", "s1", n=number) for number in range(50)])
        await server.until(lambda: len(server.posts()) == 51)
        assert [one["params"]["n"] for one in server.posts()[1:]] == list(range(50))


async def test_message_before_initialize_is_refused() -> None:
    async with fake() as server, started(server.url) as (transport, heard):
        transport.write([notice("_note"), call(1, "session/new")])
        await heard.until(lambda: bool(heard.frames))
        assert "first message" in errors(heard.frames)[1]["message"]
    assert server.requests == []


# Answers.


@requirement("R-HTTP-12")
async def test_answer_may_come_on_any_stream() -> None:
    async with fake() as server, connected(server.url) as (transport, heard):
        transport.write([call(1, "session/prompt", "s1"), call(2, "session/list")])
        server.send(None, event(result(1)))
        server.send("s1", event(result(2)))
        await heard.until(lambda: len(heard.frames) == 2)
        assert sorted(heard.frames) == [result(1), result(2)]


@pytest.mark.parametrize("status", [200, 202])
async def test_post_may_be_answered_with_the_answer(status: int) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.respond(status, result(1), {"Content-Type": "application/json"})

    async with fake() as server, connected(server.url) as (transport, heard):
        server.post = answer
        transport.write([call(1, "session/list")])
        await heard.until(lambda: bool(heard.frames))
        assert heard.frames == [result(1)]


async def test_post_may_be_answered_with_an_event_stream() -> None:
    async def answer(exchange: Exchange) -> None:
        if b'"id":1' in exchange.body:
            await exchange.start_stream({"Content-Type": "text/event-stream"})
            await exchange.send(event(notice("session/update", "s1")) + event(result(1)))
            await exchange.send(b": this stream does not end\n\n")
            await exchange.watch()
        else:
            await exchange.respond(202)

    async with fake() as server, connected(server.url) as (transport, heard):
        server.post = answer
        transport.write([call(1, "session/prompt", "s1"), notice("_after", "s1")])
        await heard.until(lambda: len(heard.frames) == 2)
        await server.until(lambda: server.posts()[-1].get("method") == "_after")


@requirement("R-HTTP-16")
async def test_load_opens_the_stream_first_and_its_answer_comes_after_the_history() -> None:
    async with fake() as server, connected(server.url) as (transport, heard):
        transport.write([call(1, "session/load", "s1")])
        await server.until(lambda: "POST session/load s1" in server.methods())
        assert server.methods()[2:] == ["GET s1", "POST session/load s1"]
        server.send(None, event(result(1)))
        server.send(None, event(notice("_marker")))
        await heard.until(lambda: bool(heard.frames))
        assert heard.frames == [notice("_marker")]  # the answer waits for the history
        history = [notice("session/update", "s1", n=number) for number in range(3)]
        server.send("s1", *map(event, history))
        await heard.until(lambda: len(heard.frames) == 5)
        assert heard.frames == [notice("_marker"), *history, result(1)]


@requirement("R-HTTP-16", "R-HTTP-37")
@pytest.mark.parametrize("status", [403, 404])
async def test_load_without_a_stream_is_sent_on_the_connection(status: int) -> None:
    known: set[str] = set()

    async def get(exchange: Exchange) -> None:
        session = exchange.header("Acp-Session-Id")
        if session is None or session in known:
            await server.stream(exchange)
        else:
            await exchange.respond(status)

    async with fake() as server, connected(server.url) as (transport, heard):
        server.get = get
        transport.write([call(1, "session/load", "s1")])
        await server.until(lambda: "POST session/load" in server.methods())
        known.add("s1")
        server.send(None, event(notice("session/update", "s1")), event(result(1)))
        await heard.until(lambda: len(heard.frames) == 2)
        await server.until(lambda: server.methods().count("GET s1") == 2)
        server.send("s1", event(notice("_on_the_stream", "s1")))
        await heard.until(lambda: len(heard.frames) == 3)


@requirement("R-HTTP-37")
@pytest.mark.parametrize("method", ["session/load", "session/resume", "session/close"])
async def test_unknown_session_is_tried_once_without_the_header(method: str) -> None:
    async def post(exchange: Exchange) -> None:
        await exchange.respond(404 if exchange.header("Acp-Session-Id") else 202)

    async with fake() as server, connected(server.url) as (transport, heard):
        server.post = post
        transport.write([call(1, method, "s1"), call(2, "session/prompt", "s1")])
        await heard.until(lambda: bool(heard.frames))
        assert server.methods()[3:] == [
            f"POST {method} s1",
            f"POST {method}",
            "POST session/prompt s1",
        ]
        failed = errors(heard.frames)[2]
        assert failed["code"] == -32603
        assert failed["data"] == {"status": 404, "body": "", "kind": "session"}
        assert not heard.ended


# Refusals.


@requirement("R-HTTP-30", "R-HTTP-37")
@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "needs a valid token"),
        (403, "does not allow"),
        (404, "does not know"),
        (410, "has ended"),
    ],
)
async def test_refused_login_or_connection_ends_it(status: int, said: str) -> None:
    async def post(exchange: Exchange) -> None:
        await exchange.respond(status, b"secret details")

    async with fake() as server, connected(server.url) as (transport, heard):
        server.post = post
        transport.write([call(1, "session/list")])
        await heard.until(lambda: heard.ended)
        error = str(heard.ends[0])
        assert f"status {status}" in error
        assert said in error
        assert "secret" not in error


@requirement("R-HTTP-30", "R-HTTP-49")
@pytest.mark.parametrize("status", [400, 413, 429, 500, 503])
async def test_other_status_fails_one_request(status: int) -> None:
    async def post(exchange: Exchange) -> None:
        await exchange.respond(status, b"x" * 100_000)

    async with fake() as server, connected(server.url) as (transport, heard):
        server.post = post
        transport.write([call(1, "session/list")])
        await heard.until(lambda: bool(heard.frames))
        failed = errors(heard.frames)[1]
        assert failed["code"] == -32603
        assert failed["data"] == {"status": status, "body": "x" * 8192}
        assert f"session/list with status {status}" in failed["message"]
        server.post = server.accept
        transport.write([call(2, "session/list")])
        server.send(None, event(result(2)))
        await heard.until(lambda: len(heard.frames) == 2)
        assert not heard.ended


@requirement("R-HTTP-30")
@pytest.mark.parametrize("message", [notice("_note"), result(7)])
async def test_refused_notification_or_answer_ends_the_connection(message: bytes) -> None:
    async def post(exchange: Exchange) -> None:
        await exchange.respond(500)

    async with fake() as server, connected(server.url) as (transport, heard):
        server.post = post
        transport.write([message])
        await heard.until(lambda: heard.ended)
        assert isinstance(heard.ends[0], ConnectionLost)
        assert "status 500" in str(heard.ends[0])


@requirement("R-HTTP-29")
async def test_conflict_fails_a_session_until_it_is_loaded() -> None:
    async def post(exchange: Exchange) -> None:
        await exchange.respond(409 if b'"id":2' in exchange.body else 202)

    async with fake() as server, connected(server.url) as (transport, heard):
        server.post = post
        transport.write([call(1, "session/prompt", "s1"), call(2, "session/prompt", "s1")])
        await heard.until(lambda: len(heard.frames) == 2)
        transport.write([call(3, "session/prompt", "s1"), call(4, "session/list")])
        await heard.until(lambda: len(heard.frames) == 3)
        failed = errors(heard.frames)
        assert set(failed) == {1, 2, 3}
        assert {one["data"]["kind"] for one in failed.values()} == {"session"}
        await server.until(lambda: server.posts()[-1]["id"] == 4)
        transport.write([call(5, "session/load", "s1")])
        await server.until(lambda: server.posts()[-1]["id"] == 5)
        server.send("s1", event(result(5)))
        await heard.until(lambda: heard.frames[-1] == result(5))
        transport.write([call(6, "session/prompt", "s1")])
        await server.until(lambda: server.posts()[-1]["id"] == 6)


@requirement("R-HTTP-37", "R-HTTP-22")
async def test_second_reader_is_tried_again_and_fails_only_the_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_streams, "CONFLICT_S", 0.2)
    refusals = 3

    async def get(exchange: Exchange) -> None:
        nonlocal refusals
        if (
            exchange.header("Acp-Session-Id") == "s1" and (refusals := refusals - 1) >= 0
        ) or exchange.header("Acp-Session-Id") == "s2":
            await exchange.respond(409)
        else:
            await server.stream(exchange)

    async with fake() as server, connected(server.url) as (transport, heard):
        server.get = get
        transport.write([call(1, "session/prompt", "s1"), call(2, "session/prompt", "s2")])
        await server.until(lambda: "POST session/prompt s1" in server.methods())
        server.send("s1", event(result(1)))
        await heard.until(lambda: len(heard.frames) == 2)
        assert heard.frames[0] == result(1)
        failed = errors(heard.frames)[2]
        assert failed["data"] == {"kind": "session", "status": 409}
        assert "another client reads it" in failed["message"]
        assert not heard.ended


@requirement("R-HTTP-37")
@pytest.mark.parametrize("status", [404, 403, 409, 405, 500])
async def test_connection_without_a_stream_has_ended(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_streams, "CONFLICT_S", 0.02)

    async def get(exchange: Exchange) -> None:
        await exchange.respond(status)

    async with fake() as server, started(server.url) as (transport, heard):
        server.get = get
        transport.write([INITIALIZE])
        await heard.until(lambda: heard.ended)
        assert f"status {status}" in str(heard.ends[0])
        assert not heard.frames


async def test_stream_of_another_content_type_is_an_error() -> None:
    async def get(exchange: Exchange) -> None:
        await exchange.respond(200, b"<html>", {"Content-Type": "text/html"})

    async with fake() as server, started(server.url) as (transport, heard):
        server.get = get
        transport.write([INITIALIZE])
        await heard.until(lambda: heard.ended)
        assert "expected an event stream, got text/html" in str(heard.ends[0])


@requirement("R-HTTP-48", "R-SEC-07")
@pytest.mark.parametrize("what", ["initialize", "GET", "GET s1", "POST", "answer"])
async def test_redirect_is_not_followed(what: str) -> None:
    async with fake() as other, fake() as server:

        async def redirect(exchange: Exchange) -> None:
            target = {"Location": f"{other.url}/acp?ticket=secret"}
            await exchange.respond(307, b"", target)

        async def get(exchange: Exchange) -> None:
            is_asked = "s1" if what == "GET s1" else None
            if what.startswith("GET") and exchange.header("Acp-Session-Id") == is_asked:
                await redirect(exchange)
            else:
                await server.stream(exchange)

        server.get = get
        if what == "initialize":
            server.initialize = redirect
        elif what in ("POST", "answer"):
            server.post = redirect
        options = RemoteOptions(token="token-of-a-test")
        async with started(server.url, options) as (transport, heard):
            transport.write([INITIALIZE])
            if what not in ("initialize", "GET"):
                await heard.until(lambda: bool(heard.frames))
                transport.write([result(7) if what == "answer" else call(1, "_x", "s1")])
            await heard.until(lambda: heard.ended)
            assert f"redirects to {other.url}/acp, which is not followed" in str(heard.ends[0])
            assert "secret" not in str(heard.ends[0])
        assert other.requests == []


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "needs a valid token"),
        (403, "does not allow"),
        (404, "no agent at this path"),
        (405, "not that of an agent"),
        (421, "host name"),
        (426, "use ws:// or wss://"),
        (429, "try again later"),
        (502, "a proxy cannot reach"),
    ],
)
async def test_refused_connection_says_the_status_and_what_to_do(status: int, said: str) -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.respond(status, b"secret details")

    async with fake() as server, started(server.url) as (transport, heard):
        server.initialize = refuse
        transport.write([INITIALIZE])
        await heard.until(lambda: heard.ended)
        error = str(heard.ends[0])
        assert f"refused the connection with status {status}" in error
        assert said in error
        assert "secret" not in error


@requirement("R-HTTP-05", "R-HTTP-32")
async def test_answer_to_initialize_must_be_one() -> None:
    async def ended_by(server: Any, body: bytes, **settings: Any) -> str:
        async def answer(exchange: Exchange) -> None:
            await exchange.respond(200, body, {"Content-Type": "application/json"})

        server.initialize = answer
        async with started(server.url, **settings) as (transport, heard):
            transport.write([INITIALIZE])
            await heard.until(lambda: heard.ended)
            return str(heard.ends[0])

    async with fake() as server:
        assert "without the header Acp-Connection-Id" in await ended_by(server, INITIALIZED)
        assert "did not answer initialize" in await ended_by(server, b"hello")
        assert "did not answer initialize" in await ended_by(server, result(5))
        too_large = result(0, protocolVersion=1, padding="x" * 10_000)
        assert "exceeds 5000 bytes" in await ended_by(server, too_large, frame_bytes=5000)


@requirement("R-HTTP-05", "R-HTTP-23")
async def test_refused_initialize_without_an_id_can_be_repeated() -> None:
    refusal = b'{"jsonrpc":"2.0","id":0,"error":{"code":-32000,"message":"login first"}}'

    async def refuse(exchange: Exchange) -> None:
        await exchange.respond(200, refusal, {"Content-Type": "application/json"})

    async with fake() as server, started(server.url) as (transport, heard):
        server.initialize = refuse
        transport.write([INITIALIZE])
        await heard.until(lambda: heard.frames == [refusal])
        server.initialize = server.initialized
        transport.write([INITIALIZE])
        await heard.until(lambda: heard.frames == [refusal, INITIALIZED])
        assert transport.connection_id == "c-1"
        assert not heard.ended


@requirement("R-HTTP-23")
async def test_new_id_of_a_repeated_initialize_is_used_and_the_old_one_deleted() -> None:
    async with fake() as server, connected(server.url) as (transport, heard):
        server.first_headers = {"Acp-Connection-Id": "c-2"}
        transport.write([INITIALIZE])
        await heard.until(lambda: bool(heard.frames))
        await server.until(lambda: "DELETE" in server.methods())
        transport.write([notice("_note")])
        await server.until(lambda: server.posts()[-1]["method"] == "_note")
        gone = next(one for one in server.requests if one.method == "DELETE")
        assert gone.header("Acp-Connection-Id") == "c-1"
        assert server.requests[-1].header("Acp-Connection-Id") == "c-2"


# Streams that end.


@requirement("R-HTTP-41", "R-HTTP-42")
@pytest.mark.parametrize("session", [None, "s1"])
async def test_stream_that_ends_in_order_is_opened_again_and_loses_nothing(
    session: str | None,
) -> None:
    async with fake() as server, connected(server.url) as (transport, heard):
        transport.write([call(1, "_call", session)])
        server.send(session, event(notice("_before")), END, event(result(1)))
        await heard.until(lambda: len(heard.frames) == 2)
        assert heard.frames == [notice("_before"), result(1)]


@requirement("R-HTTP-31", "R-HTTP-42")
@pytest.mark.parametrize("session", [None, "s1"])
async def test_stream_that_is_cut_off_fails_its_requests_and_is_opened_again(
    session: str | None,
) -> None:
    async with fake() as server, connected(server.url) as (transport, heard):
        transport.write([call(1, "_call", session), call(2, "_call", "other")])
        await server.until(lambda: len(server.posts()) == 3)
        server.send(session, event(notice("_before")), CUT)
        await heard.until(lambda: len(heard.frames) == 2)
        failed = errors(heard.frames[1:])
        assert set(failed) == {1}
        assert "may be lost" in failed[1]["message"]
        assert failed[1]["data"]["kind"] == ("connection" if session is None else "session")
        server.send("other", event(result(2)))
        server.send(session, event(notice("_after")))
        await heard.until(lambda: len(heard.frames) == 4)
        assert sorted(heard.frames[2:]) == sorted([notice("_after"), result(2)])


@requirement("R-HTTP-43", "R-HTTP-42")
async def test_event_ids_let_a_cut_stream_continue() -> None:
    async with fake() as server, connected(server.url) as (transport, heard):
        transport.write([call(1, "_call", "s1")])
        server.send("s1", b"retry: 120\nid: e-7\n" + event(notice("_before")), CUT)
        await server.until(lambda: server.methods().count("GET s1") == 2)
        server.send("s1", event(result(1)))
        await heard.until(lambda: len(heard.frames) == 2)
        assert heard.frames == [notice("_before"), result(1)]
        first, second = [one for one in server.requests if one.header("Acp-Session-Id") == "s1"][
            ::2
        ]
        assert first.header("Last-Event-ID") is None
        assert second.header("Last-Event-ID") == "e-7"
        assert second.time - first.time > 0.08


@requirement("R-HTTP-31", "R-HTTP-41")
async def test_session_stream_that_ends_at_once_fails_its_requests_until_the_next_message() -> None:
    async with fake() as server, connected(server.url) as (transport, heard):
        transport.write([call(1, "_call", "s1")])
        server.send("s1", END, END, END, END)
        await heard.until(lambda: bool(heard.frames))
        assert "has ended the event stream" in errors(heard.frames)[1]["message"]
        assert server.methods().count("GET s1") == 4
        transport.write([call(2, "_call", "s1")])
        server.send("s1", event(result(2)))
        await heard.until(lambda: len(heard.frames) == 2)
        assert server.methods().count("GET s1") == 5
        assert not heard.ended


@requirement("R-HTTP-31", "R-HTTP-41")
async def test_connection_stream_that_ends_at_once_ends_the_connection() -> None:
    async with fake() as server, connected(server.url) as (_, heard):
        server.send(None, END, CUT, END, END)
        await heard.until(lambda: heard.ended)
        assert isinstance(heard.ends[0], ConnectionLost)
        assert server.methods().count("GET") == 4


async def test_session_that_is_gone_when_its_stream_is_opened_again_fails() -> None:
    async def get(exchange: Exchange) -> None:
        await exchange.respond(404)

    async with fake() as server, connected(server.url) as (transport, heard):
        transport.write([call(1, "_call", "s1")])
        await server.until(lambda: "POST _call s1" in server.methods())
        server.get = get
        server.send("s1", END)
        await heard.until(lambda: bool(heard.frames))
        assert errors(heard.frames)[1]["data"] == {"kind": "session", "status": 404}
        assert not heard.ended


async def test_silent_stream_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_streams, "SILENCE_S", 0.05)
    async with fake() as server, connected(server.url) as (transport, heard):
        transport.write([call(1, "_call", "s1")])
        server.send("s1", b": keepalive\n\n")
        await heard.until(lambda: bool(heard.frames))
        assert "the server is silent" in errors(heard.frames)[1]["message"]
        await server.until(lambda: server.methods().count("GET s1") == 2)


@requirement("R-HTTP-28", "R-HTTP-49")
async def test_event_within_the_limit_arrives_and_a_larger_one_is_refused() -> None:
    large = b'{"text":"' + b"x" * 31 * 1024 * 1024 + b'"}'
    too_large = b'{"id":5,"result":"' + b"x" * 33 * 1024 * 1024 + b'"}'
    async with fake() as server, connected(server.url) as (_, heard):
        server.send(None, event(large), event(too_large), event(notice("_next")))
        await heard.until(lambda: len(heard.frames) == 2)
        assert heard.frames == [large, notice("_next")]
        assert heard.refused == [32 * 1024 * 1024]


# The end.


@requirement("R-HTTP-13", "R-HTTP-32")
async def test_close_sends_what_was_written_and_then_ends_the_connection() -> None:
    async with fake() as server:
        async with connected(server.url) as (transport, _):
            transport.write([notice("_note", "s1", n=number) for number in range(5)])
        assert server.methods()[2:] == ["GET s1", *["POST _note s1"] * 5, "DELETE"]


@pytest.mark.parametrize("status", [202, 204, 404, 500])
async def test_answer_to_delete_does_not_matter(status: int) -> None:
    async def delete(exchange: Exchange) -> None:
        await exchange.respond(status)

    async with fake() as server:
        server.delete = delete
        async with connected(server.url) as (_, heard):
            pass
        assert not heard.ended


@requirement("R-HTTP-32")
async def test_close_does_not_wait_for_a_server_that_does_not_answer() -> None:
    async def swallow(exchange: Exchange) -> None:
        await exchange.watch()

    async with fake() as server:
        server.delete = swallow
        async with connected(server.url):
            pass


async def test_server_that_dies_during_a_post_ends_the_connection() -> None:
    async def die(exchange: Exchange) -> None:
        exchange.abort()

    async with fake() as server, connected(server.url) as (transport, heard):
        server.post = die
        transport.write([call(1, "session/prompt", "s1")])
        await heard.until(lambda: heard.ended)
        assert isinstance(heard.ends[0], ConnectionLost)
        assert "was lost" in str(heard.ends[0])


async def test_response_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "BODY_S", 0.05)

    async def trickle(exchange: Exchange) -> None:
        await exchange.start_stream({"Content-Type": "application/json"})
        await exchange.send(b'{"jsonrpc":')
        await exchange.watch()

    async with fake() as server, connected(server.url) as (transport, heard):
        server.post = trickle
        transport.write([call(1, "session/list")])
        await heard.until(lambda: heard.ended)
        assert "does not end" in str(heard.ends[0])


async def test_accepted_post_with_an_endless_body_is_not_read() -> None:
    async def flood(exchange: Exchange) -> None:
        if b'"_first"' in exchange.body:
            await exchange.start_stream({"Content-Type": "text/plain"})
            exchange.status = 202
            for _ in range(1000):
                await exchange.send(b"x" * 100_000)
        else:
            await exchange.respond(202)

    async def flood_until_gone(exchange: Exchange) -> None:
        try:
            await flood(exchange)
        except OSError:
            exchange.keeps_open = False

    async with fake() as server, connected(server.url) as (transport, heard):
        server.post = flood_until_gone
        transport.write([notice("_first"), notice("_second")])
        await server.until(lambda: server.posts()[-1]["method"] == "_second")
        assert not heard.ended


async def test_nobody_listens() -> None:
    async with fake() as server:
        url = server.url
    async with started(url) as (transport, heard):
        transport.write([INITIALIZE])
        await heard.until(lambda: heard.ended)
        assert isinstance(heard.ends[0], TransportError)
        assert f"Cannot connect to {url}/acp" in str(heard.ends[0])


# Cookies.


@requirement("R-HTTP-04")
async def test_cookies_are_sent_back_and_kept_for_the_next_connection() -> None:
    async with fake() as server, fake() as other:
        server.first_headers["Set-Cookie"] = "route=a1; Path=/; HttpOnly"
        cookies = CookieStore()
        options = RemoteOptions(cookies=cookies)
        async with connected(server.url, options):
            pass
        first, *rest = server.requests
        assert first.header("Cookie") is None
        assert {one.header("Cookie") for one in rest} == {"route=a1"}
        async with connected(server.url, options):
            pass
        assert {one.header("Cookie") for one in server.requests[len(rest) + 1 :]} == {"route=a1"}
        async with connected(other.url, options):  # T20: another port is another server
            pass
        assert {one.header("Cookie") for one in other.requests} == {None}


async def test_error_at_the_url() -> None:
    with pytest.raises(ValueError, match="http or https"):
        module.http("ws://127.0.0.1/acp")
    with pytest.raises(ValueError, match="unencrypted"):
        module.http("http://example.org/acp", RemoteOptions(token="token-of-a-test"))
