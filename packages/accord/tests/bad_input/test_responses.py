"""Malformed responses, and other messages that an agent must not send to a client.

`jsonrpc/test_peer.py` has every kind of response that is not one; here some reach a whole client.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bad_input.raw import Program, answer, notification, program, request, threaded_client
from requirement import requirement

UNMATCHED = "! ignored a message: a response that matches no request"


def greet(running: Program) -> None:
    asked = running.receive()
    assert asked["method"] == "initialize"
    running.send(answer(asked["id"], {"protocolVersion": 1, "agentCapabilities": {}}))
    assert running.err_line() == "connected"


@pytest.fixture
def client() -> Iterator[Program]:
    """Run Accord's client, which sends two requests one after the other."""
    with threaded_client("plain", 2) as running:
        greet(running)
        yield running


def finish(client: Program, question: Any = None) -> None:
    """Answer the requests correctly; the client must not have sent anything else."""
    for number in (0, 1) if question is not None else (1,):
        asked = question if number == 0 else client.receive()
        assert (asked.get("method"), asked["params"]) == ("_question", {"number": number})
        client.send(answer(asked["id"], number))
        assert client.err_line() == f"answered {number}"
    assert client.err_line() == "closed"
    assert client.wait() == 0


def response(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": "ID", **fields}).encode()


# Responses to the request with the id "ID", and what the caller gets.
RESPONSES = [
    (response(), "(-32603)"),
    (response(error=None), "(-32603)"),
    (response(error={}), "(-32603)"),
    (response(error="text"), "(-32603)"),
    (response(error={"code": "1", "message": "text"}), "(-32603)"),
    (response(error={"code": 1.5, "message": "text"}), "(-32603)"),
    (response(error={"code": 1, "message": 5}), "(-32603)"),
    (response(jsonrpc="1.0", result=5), "(-32603)"),
    (response(jsonrpc=None, result=5), "(-32603)"),
    (response(result=5, error={"code": -32000, "message": "no"}), "AuthRequired no (-32000)"),
    (response(error={"code": 77, "message": "odd", "data": None}), "RequestError odd (77)"),
    (response(error={"code": 77, "message": "odd", "data": "a"}), "RequestError odd: a (77)"),
    (response(error={"code": 77, "message": "odd", "data": {"a": [1]}}), "RequestError odd (77)"),
    (
        b'{"jsonrpc":"2.0","id":"ID","result":["\xff","\\ud83d"]}',
        r"answered ['\ufffd', '\ud83d']",
    ),
    (
        b'{"jsonrpc":"2.0","id":"ID","error":{"code":1,"message":"a\xff","data":"\\ud83d"}}',
        "RequestError a",
    ),
    (response(result="good"), "answered 'good'"),
]


@requirement("R-GEN-04", "R-ERR-04", "R-GEN-03", "R-ERR-01", "R-ERR-02", "R-STDIO-11")
def test_malformed_response_fails_its_call_alone_and_is_not_answered() -> None:
    with threaded_client("plain", len(RESPONSES)) as client:
        greet(client)
        for number, (line, outcome) in enumerate(RESPONSES):
            asked = client.receive()
            assert (asked["method"], asked["params"]) == ("_question", {"number": number})
            client.write(line.replace(b'"ID"', json.dumps(asked["id"]).encode()) + b"\n")
            assert outcome in client.err_line(), line
        assert client.err_line() == "closed"
        assert client.wait() == 0


@requirement("R-ERR-04", "R-GEN-06")
def test_responses_without_a_request_are_logged_once_and_ignored(client: Program) -> None:
    error = {"code": 1, "message": "text"}
    for what in ({"result": 5}, {"error": error}, {}):
        for request_id in (99, "0", 1.5, 2**70, []):
            client.send({"jsonrpc": "2.0", "id": request_id, **what})
    assert client.err_line() == UNMATCHED
    client.send({"jsonrpc": "2.0", "id": None, "error": error})
    assert "could not read one of our messages" in client.err_line()
    finish(client, client.receive())


@requirement("R-ERR-04")
def test_second_response_to_a_request_is_logged_and_ignored(client: Program) -> None:
    first = client.receive()["id"]
    good, bad = answer(first, "good"), {"jsonrpc": "2.0", "id": first, "error": {}}
    client.send(good, good, bad)
    assert {client.err_line(), client.err_line()} == {"answered 'good'", UNMATCHED}
    finish(client)


@requirement("R-GEN-06", "R-ERR-04")
def test_response_with_the_id_in_another_type_fails_its_call(client: Program) -> None:
    question = client.receive()
    client.write(b'{"jsonrpc":"2.0","id":"%d","result":5}\n' % question["id"])
    assert client.err_line().startswith("RemoteProtocolError _question: the response has the id ")
    finish(client)


@requirement("R-ERR-03", "R-BATCH-10", "R-BATCH-12")
def test_invalid_message_is_answered_with_an_error_by_a_client_too(client: Program) -> None:
    question = client.receive()
    batch = json.dumps([answer(question["id"], "batched")]).encode()
    for line in (b"Starting up...", b"[]", batch, b'{"jsonrpc":"2.0","method":5}'):
        client.write(line + b"\n")
        refusal = client.receive()
        assert refusal["id"] is None, line
        assert refusal["error"]["code"] in (-32600, -32700), line
    finish(client, question)


@requirement("R-GEN-05", "R-GEN-11", "R-EXT-07")
def test_malformed_notification_is_dropped(client: Program) -> None:
    client.send(
        notification("session/update"),
        notification("session/update", {"sessionId": 5}),
        notification("session/update", {"sessionId": "s", "update": {"sessionUpdate": 5}}),
        notification("session/nothing", {}),
        notification("_nothing"),
    )
    finish(client, client.receive())


@requirement("R-STDIO-03")
def test_update_with_a_lone_surrogate_reaches_its_handler(client: Program) -> None:
    content = {"type": "text", "text": "a\ud83d"}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    client.send(notification("session/update", {"sessionId": "s", "update": update}))
    assert client.err_line() == r"update 'a\ud83d'"
    finish(client, client.receive())


@requirement("R-ERR-01")
def test_unsupported_request_is_answered_with_method_not_found(client: Program) -> None:
    question = client.receive()
    params = {"sessionId": "s", "path": "/home/me/a"}
    refusal = client.ask(request(1, "fs/read_text_file", params))
    assert (refusal["id"], refusal["error"]["code"]) == (1, -32601)
    finish(client, question)


@pytest.mark.parametrize("rest", [b"", b'{"jsonrpc":"2.0","id":'])
def test_calls_fail_when_the_agent_disconnects(rest: bytes, client: Program) -> None:
    client.receive()
    client.write(rest)
    client.close_input()
    assert client.err_line().startswith("ConnectionLost")
    assert client.err_line().startswith("ConnectionLost")
    assert client.err_line() == "closed"
    assert client.wait() == 0


def test_handler_that_ignores_its_cancellation_does_not_delay_the_close() -> None:
    with program("client.py", "stubborn", "1") as running:
        greet(running)
        question = running.receive()
        update = {"sessionUpdate": "session_info_update", "title": "a"}
        running.send(notification("session/update", {"sessionId": "s", "update": update}))
        assert running.err_line() == "stubborn"
        running.send(answer(question["id"], "good"))
        assert running.err_line() == "answered 'good'"
        assert "closed" in running.stderr()
        assert running.wait() == 0
