"""Malformed responses, and other messages that an agent must not send to a client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bad_input.raw import Program, answer, notification, program, request, threaded_client
from requirement import requirement

LAST = "last"
UNMATCHED = "! ignored a message: a response that matches no request"


@pytest.fixture
def client() -> Iterator[Program]:
    """Run Accord's client, which sends two requests one after the other."""
    with threaded_client("plain", 2) as running:
        greet(running)
        yield running


def greet(running: Program) -> None:
    asked = running.receive()
    assert asked["method"] == "initialize"
    running.send(answer(asked["id"], {"protocolVersion": 1, "agentCapabilities": {}}))
    assert running.err_line() == "connected"


def outcome_of(client: Program, line: bytes) -> str:
    """Answer one request with a line, the next correctly; return the result of the first."""
    first = client.receive()
    assert (first["method"], first["params"]) == ("_question", {"number": 0})
    client.write(line.replace(b'"ID"', json.dumps(first["id"]).encode()) + b"\n")
    outcome = client.err_line()
    finish(client)
    return outcome


def finish(client: Program) -> None:
    """Answer the next request correctly; the client must not have sent anything else."""
    question = client.receive()
    assert question.get("method") == "_question"
    client.send(answer(question["id"], LAST))
    assert client.err_line() == f"answered {LAST!r}"
    assert client.err_line() == "closed"
    assert client.wait() == 0


@requirement("R-GEN-04", "R-ERR-04", "R-GEN-03")
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"error": None},
        {"error": {}},
        {"error": "text"},
        {"error": 5},
        {"error": []},
        {"error": {"code": "1", "message": "text"}},
        {"error": {"code": 1.5, "message": "text"}},
        {"error": {"code": 1}},
        {"error": {"message": "text"}},
        {"error": {"code": 1, "message": 5}},
        {"jsonrpc": "1.0", "result": 5},
        {"jsonrpc": None, "result": 5},
    ],
    ids=json.dumps,
)
def test_malformed_response_fails_its_call_and_is_not_answered(
    fields: dict[str, Any], client: Program
) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": "ID", **fields}).encode()
    assert outcome_of(client, line).endswith("(-32603)")


@requirement("R-GEN-04")
def test_response_with_result_and_error_is_an_error(client: Program) -> None:
    error = {"code": -32000, "message": "log in"}
    line = json.dumps({"jsonrpc": "2.0", "id": "ID", "result": 5, "error": error}).encode()
    assert outcome_of(client, line) == "AuthRequired log in (-32000)"


@requirement("R-ERR-01", "R-ERR-02")
@pytest.mark.parametrize("data", [None, 5, "text", {"a": [1]}])
def test_error_with_any_data_is_accepted(data: object, client: Program) -> None:
    error = {"code": 77, "message": "odd", "data": data}
    line = json.dumps({"jsonrpc": "2.0", "id": "ID", "error": error}).encode()
    said = "odd: text" if data == "text" else "odd"
    assert outcome_of(client, line) == f"RequestError {said} (77)"


@requirement("R-STDIO-11")
def test_response_with_invalid_utf_8_or_a_lone_surrogate_is_accepted(client: Program) -> None:
    line = b'{"jsonrpc":"2.0","id":"ID","result":["\xff","\\ud83d"]}'
    assert outcome_of(client, line) == r"answered ['\ufffd', '\ud83d']"


def test_error_with_a_lone_surrogate_is_accepted(client: Program) -> None:
    line = b'{"jsonrpc":"2.0","id":"ID","error":{"code":1,"message":"a\xff","data":"\\ud83d"}}'
    assert outcome_of(client, line).startswith("RequestError a")


@requirement("R-ERR-04", "R-GEN-06")
@pytest.mark.parametrize("request_id", [99, -1, "0", "01", None, 1.5, 2**70, [], {}])
@pytest.mark.parametrize("what", [{"result": 5}, {"error": {"code": 1, "message": "text"}}, {}])
def test_response_without_a_request_is_logged_and_ignored(
    request_id: object, what: dict[str, Any], client: Program
) -> None:
    client.send({"jsonrpc": "2.0", "id": request_id, **what})
    report = client.err_line()
    if request_id is None and "error" in what:
        assert "could not read one of our messages" in report
    else:
        assert report == UNMATCHED
    assert outcome_of(client, json.dumps(answer("ID", "good")).encode()) == "answered 'good'"


@requirement("R-ERR-04")
def test_second_response_to_a_request_is_logged_and_ignored(client: Program) -> None:
    good = json.dumps(answer("ID", "good")).encode()
    bad = json.dumps({"jsonrpc": "2.0", "id": "ID", "error": {}}).encode()
    first = client.receive()["id"]
    client.write((good + b"\n" + good + b"\n" + bad).replace(b'"ID"', b"%d" % first) + b"\n")
    assert {client.err_line(), client.err_line()} == {"answered 'good'", UNMATCHED}
    finish(client)


@requirement("R-GEN-06", "R-ERR-04")
@pytest.mark.parametrize("wrong", [b'"%d"', b"%d.0"])
def test_response_with_the_id_in_another_type_fails_its_call(wrong: bytes, client: Program) -> None:
    question = client.receive()
    client.write(b'{"jsonrpc":"2.0","id":%b,"result":5}\n' % (wrong % question["id"]))
    assert client.err_line().startswith("RemoteProtocolError _question: the response has the id ")
    finish(client)


@requirement("R-ERR-03", "R-BATCH-10")
@pytest.mark.parametrize("line", [b"Starting up...", b"[]", b'{"jsonrpc":"2.0","method":5}'])
def test_invalid_message_is_answered_with_an_error_by_a_client_too(
    line: bytes, client: Program
) -> None:
    question = client.receive()
    client.write(line + b"\n")
    refusal = client.receive()
    assert refusal["id"] is None
    assert refusal["error"]["code"] in (-32600, -32700)
    client.send(answer(question["id"], "good"))
    assert client.err_line() == "answered 'good'"
    finish(client)


@requirement("R-BATCH-10", "R-BATCH-12")
def test_response_in_a_batch_is_ignored(client: Program) -> None:
    question = client.receive()
    client.send([answer(question["id"], "batched")])
    assert client.receive()["error"]["code"] == -32600
    client.send(answer(question["id"], "good"))
    assert client.err_line() == "answered 'good'"
    finish(client)


@requirement("R-GEN-05", "R-GEN-11", "R-EXT-07")
@pytest.mark.parametrize(
    "message",
    [
        notification("session/update"),
        notification("session/update", {"sessionId": 5}),
        notification("session/update", {"sessionId": "s", "update": {"sessionUpdate": 5}}),
        notification("session/nothing", {}),
        notification("_nothing"),
    ],
    ids=json.dumps,
)
def test_malformed_notification_is_dropped(message: object, client: Program) -> None:
    client.send(message)
    assert outcome_of(client, json.dumps(answer("ID", "good")).encode()) == "answered 'good'"


@requirement("R-STDIO-03")
def test_update_with_a_lone_surrogate_reaches_its_handler(client: Program) -> None:
    content = {"type": "text", "text": "a\ud83d"}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    client.send(notification("session/update", {"sessionId": "s", "update": update}))
    assert client.err_line() == r"update 'a\ud83d'"
    finish_both(client)


def finish_both(client: Program) -> None:
    question = client.receive()
    client.send(answer(question["id"], "good"))
    assert client.err_line() == "answered 'good'"
    finish(client)


@requirement("R-ERR-01")
def test_unsupported_request_is_answered_with_method_not_found(client: Program) -> None:
    question = client.receive()
    params = {"sessionId": "s", "path": "/home/me/a"}
    refusal = client.ask(request(1, "fs/read_text_file", params))
    assert (refusal["id"], refusal["error"]["code"]) == (1, -32601)
    client.send(answer(question["id"], "good"))
    assert client.err_line() == "answered 'good'"
    finish(client)


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
