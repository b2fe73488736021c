"""Lines that are not JSON or not messages are answered with an error, and the agent continues."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bad_input.raw import (
    Program,
    answer,
    initialize,
    notification,
    program,
    prompt,
    request,
    still_answers,
)
from requirement import requirement

DEEP = 100_000


def code_for(line: bytes, running: Program) -> int:
    """Return the error code of the only response to a line."""
    running.write(line + b"\n")
    response = running.receive()
    assert still_answers(running)
    assert response.keys() == {"jsonrpc", "id", "error"}
    assert response["id"] is None
    assert isinstance(response["error"]["message"], str)
    return response["error"]["code"]


NOT_JSON = [
    b'{"jsonrpc":"2.0","id":1,"method":"_echo"',
    b"hello",
    b"\xef\xbb\xbf\x00",
    b'{"jsonrpc":"2.0","id":1,"method":"_echo","params":{"n":NaN}}',
    b"[" * DEEP + b"]" * DEEP,
    b'{"jsonrpc":"2.0","id":1,"method":"_echo","params":' + b"[" * DEEP + b"]" * DEEP + b"}",
    b'{"jsonrpc":"2.0","id":1,"method":"_echo","params":' + b'{"a":' * DEEP,
]


@requirement("R-ERR-01", "R-ERR-03")
def test_invalid_json_is_answered_with_a_parse_error(survivor: Program) -> None:
    for line in NOT_JSON:
        assert code_for(line, survivor) == -32700, line[:60]


NOT_MESSAGES: list[object] = [
    5,
    None,
    {},
    {"jsonrpc": "2.0", "params": {}},
    {"jsonrpc": "2.0", "id": 1, "method": 5},
    {"jsonrpc": "2.0", "method": 5},
    {"jsonrpc": "1.0", "id": 1, "method": "_echo"},
    {"id": 1, "method": "_echo"},
    {"jsonrpc": "2.0", "id": 1.5, "method": "_echo"},
    {"jsonrpc": "2.0", "id": [1], "method": "_echo"},
    {"jsonrpc": "2.0", "id": 2**63, "method": "_echo"},
    {"jsonrpc": "2.0", "id": 10**400, "method": "_echo"},
]


@requirement("R-ERR-03", "R-GEN-03", "R-GEN-04", "R-STDIO-08")
def test_json_that_is_not_a_message_is_an_invalid_request(survivor: Program) -> None:
    for message in NOT_MESSAGES:
        assert code_for(json.dumps(message).encode(), survivor) == -32600, message


BATCHES: list[Any] = [
    [],
    [request(1, "_echo"), request(2, "_echo")],
    [notification("_count")],
    [initialize()],
    [1, 2],
    [[]],
]


@requirement("R-BATCH-10", "R-BATCH-12")
def test_batch_is_answered_with_one_error_and_not_handled(survivor: Program) -> None:
    for batch in BATCHES:
        response = survivor.ask(batch)
        assert (response["id"], response["error"]["code"]) == (None, -32600), batch
        assert survivor.ask(request("seen", "_seen")) == answer("seen", 0), batch


@requirement("R-BATCH-10")
def test_batch_before_initialize_is_answered_with_one_error() -> None:
    with program("agent.py") as running:
        for batch in BATCHES:
            response = running.ask(batch)
            assert (response["id"], response["error"]["code"]) == (None, -32600), batch
        assert "result" in running.ask(initialize())


@requirement("R-STDIO-11")
def test_blank_lines_and_carriage_returns_are_ignored(survivor_v1: Program) -> None:
    survivor_v1.write(b"\n\r\n \t \n")
    survivor_v1.write(json.dumps(request(1, "_echo", 5)).encode() + b"\r\n")
    assert survivor_v1.receive() == answer(1, 5)


@requirement("R-STDIO-11", "R-STDIO-03")
def test_invalid_utf_8_is_replaced(survivor_v1: Program) -> None:
    survivor_v1.write(b'{"jsonrpc":"2.0","id":1,"method":"_echo","params":["a\xff\xc3z"]}\n')
    assert survivor_v1.receive() == answer(1, ["a\ufffd\ufffdz"])
    assert still_answers(survivor_v1)


@requirement("R-STDIO-11")
def test_invalid_utf_8_in_a_typed_request_is_replaced(survivor_v1: Program) -> None:
    line = json.dumps(prompt(1, "broken")).encode()
    survivor_v1.write(line.replace(b"broken", b"a\xffz") + b"\n")
    update = survivor_v1.receive()
    assert update["params"]["update"]["content"]["text"] == "a\ufffdz"
    assert survivor_v1.receive()["id"] == 1


@requirement("R-STDIO-03")
def test_lone_surrogate_escape_is_read_and_written(survivor_v1: Program) -> None:
    for text in ("\ud83d", "a\udc00b", "\udc00\ud83d"):
        assert survivor_v1.ask(request(1, "_echo", {"text": text})) == answer(1, {"text": text}), (
            text
        )
        survivor_v1.send(prompt(2, text))
        update = survivor_v1.receive()
        assert update["params"]["update"]["content"]["text"] == text, text
        assert survivor_v1.receive()["result"] == {"stopReason": "end_turn"}, text


def test_lone_surrogate_escape_can_be_in_an_id(survivor_v1: Program) -> None:
    assert survivor_v1.ask(request("\ud83d", "_echo", 1)) == answer("\ud83d", 1)


def test_lone_surrogate_escape_can_be_in_a_method(survivor_v1: Program) -> None:
    response = survivor_v1.ask(request(1, "_\ud83d"))
    assert (response["id"], response["error"]["code"]) == (1, -32601)
    response = survivor_v1.ask(request(2, "\ud83d"))
    assert (response["id"], response["error"]["code"]) == (2, -32601)
    assert still_answers(survivor_v1)


@requirement("R-GEN-11")
@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"sessionId": "s", "prompt": "\ud800"}, "$.prompt"),
        ({"sessionId": 1, "prompt": [{"type": "\ud800"}]}, "$.sessionId"),
        ({"sessionId": "s", "prompt": [{"type": "\ud800"}]}, "$.prompt[0].type"),
    ],
)
def test_invalid_lone_surrogate_rejects_only_its_message(
    params: dict[str, object], path: str, survivor_v1: Program
) -> None:
    """Messages of the same read are answered too."""
    survivor_v1.send(request(1, "session/prompt", params), request(2, "_echo", "next"))
    answers = {each["id"]: each for each in (survivor_v1.receive(), survivor_v1.receive())}
    assert answers[2] == answer(2, "next")
    assert answers[1]["error"]["code"] == -32602
    assert answers[1]["error"]["data"]["path"] == path


@requirement("R-GEN-11")
def test_lone_surrogate_in_an_optional_number_makes_it_absent(survivor_v1: Program) -> None:
    block = {"type": "text", "text": "hi", "annotations": {"priority": "\ud800"}}
    survivor_v1.send(request(1, "session/prompt", {"sessionId": "s", "prompt": [block]}))
    assert survivor_v1.receive()["method"] == "session/update"
    assert survivor_v1.receive() == answer(1, {"stopReason": "end_turn"})
