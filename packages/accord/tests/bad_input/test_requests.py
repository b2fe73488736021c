"""Well-formed requests with invalid contents."""

from __future__ import annotations

import pytest

from bad_input.raw import (
    Program,
    agent,
    answer,
    initialize,
    notification,
    program,
    prompt,
    request,
    still_answers,
)
from requirement import requirement

BOTH = pytest.mark.parametrize("version", [1, 2])


# Ids.


@requirement("R-GEN-06")
def test_v1_null_id_is_answered_with_null(survivor_v1: Program) -> None:
    assert survivor_v1.ask(request(None, "_echo", 5)) == answer(None, 5)


@requirement("R-GEN-14")
def test_v2_null_id_is_rejected(survivor_v2: Program) -> None:
    response = survivor_v2.ask(request(None, "_echo", 5))
    assert (response["id"], response["error"]["code"]) == (None, -32600)
    assert still_answers(survivor_v2)


@requirement("R-GEN-06", "R-ERR-03")
def test_invalid_id_is_rejected(survivor: Program) -> None:
    for id_text in ("1.5", "1.0", "1e2", "1e400", "9223372036854775808", "true"):
        survivor.write(b'{"jsonrpc":"2.0","id":%b,"method":"_echo"}\n' % id_text.encode())
        response = survivor.receive()
        assert response["id"] is None, id_text
        assert response["error"]["code"] in (-32600, -32700), id_text
        assert still_answers(survivor), id_text


@requirement("R-GEN-06")
def test_any_other_id_is_returned_with_its_type_and_value(survivor: Program) -> None:
    for request_id in (0, -1, 2**63 - 1, -(2**63), "", "0", "a\nb", "é\u2028👋", "x" * 1_000_000):
        assert survivor.ask(request(request_id, "_echo", 5)) == answer(request_id, 5), request_id


@requirement("R-GEN-06")
def test_number_and_string_of_the_same_digits_are_different_ids() -> None:
    with agent() as running:
        running.send(request(1, "_hold", "number"), request("1", "_hold", "text"))
        running.send(notification("_release"))
        assert [running.receive(), running.receive()] == [answer(1, "number"), answer("1", "text")]


@requirement("R-GEN-13")
@BOTH
def test_id_of_an_open_request_is_rejected_and_that_request_answered(version: int) -> None:
    with agent(version=version) as running:
        running.send(request(1, "_hold", "first"))
        response = running.ask(request(1, "_echo", "second"))
        assert (response["id"], response["error"]["code"]) == (None, -32600)
        assert running.ask(notification("_release")) == answer(1, "first")


def test_id_of_an_answered_request_can_be_used_again(survivor_v1: Program) -> None:
    assert survivor_v1.ask(request(1, "_echo", "first")) == answer(1, "first")
    assert survivor_v1.ask(request(1, "_echo", "second")) == answer(1, "second")


# Methods.


@requirement("R-ERR-01", "R-EXT-06")
def test_unknown_request_is_answered_with_method_not_found(survivor: Program) -> None:
    for method in (
        "",
        "nothing",
        "session/nothing",
        "_nothing",
        "$/nothing",
        "initialized",
        "x" * 100_000,
    ):
        response = survivor.ask(request(1, method, {}))
        assert (response["id"], response["error"]["code"]) == (1, -32601), method


@requirement("R-ERR-01")
def test_unsupported_method_is_not_found(survivor_v1: Program) -> None:
    response = survivor_v1.ask(request(1, "session/load", {"sessionId": "s"}))
    assert (response["id"], response["error"]["code"]) == (1, -32601)


NOTIFICATIONS = [
    ("nothing", {}),
    ("_nothing", [1]),
    ("$/nothing", {}),
    ("$/cancel_request", {"requestId": "unknown"}),
    ("$/cancel_request", {"requestId": 1.5}),
    ("$/cancel_request", {}),
    ("$/cancel_request", None),
    ("session/cancel", {"sessionId": 5}),
    ("session/cancel", None),
    ("session/prompt", {"sessionId": "s"}),
    ("initialize", {"protocolVersion": 1}),
    ("_fail", None),
]


@requirement("R-EXT-07", "R-GEN-05", "R-REQCAN-10")
def test_notification_is_never_answered(survivor: Program) -> None:
    for method, params in NOTIFICATIONS:
        survivor.send(notification(method, params))
        assert still_answers(survivor), (method, params)


@requirement("R-INIT-30", "R-REQCAN-14")
def test_requests_before_initialize_are_rejected_and_notifications_ignored() -> None:
    with program("agent.py") as running:
        running.send(notification("_release"), notification("$/cancel_request", {"requestId": 1}))
        for method in ("_echo", "nothing", "session/prompt"):
            response = running.ask(request(1, method))
            assert (response["id"], response["error"]["code"]) == (1, -32600)
        assert "result" in running.ask(initialize())


# Params.


TURN = {"sessionId": "s", "prompt": [{"type": "text", "text": "a"}]}
RESOURCE = {"type": "resource", "resource": {"uri": 1, "text": ""}}
SERVER = {"name": "a", "command": "b", "args": [1], "env": []}


WRONG_PARAMS = [
    ("session/prompt", {**TURN, "sessionId": 5}, "$.sessionId"),
    ("session/prompt", {**TURN, "prompt": "text"}, "$.prompt"),
    ("session/prompt", {**TURN, "prompt": [{"type": "text", "text": 1}]}, "$.prompt[0].text"),
    ("session/prompt", {**TURN, "prompt": [RESOURCE]}, "$.prompt[0].resource.uri"),
    ("session/prompt", {"sessionId": "\ud83d", "prompt": 1}, "$.prompt"),
    ("session/new", {"cwd": "/", "mcpServers": [SERVER]}, "$.mcpServers[0].args[0]"),
    ("session/new", [], "$"),
    ("session/new", "text", "$"),
    ("session/new", 5, "$"),
]


@requirement("R-ERR-01", "R-ERR-05", "R-GEN-11")
def test_error_of_wrong_params_has_the_path_of_the_field(survivor_v1: Program) -> None:
    for method, params, path in WRONG_PARAMS:
        response = survivor_v1.ask(request(1, method, params))
        assert (response["id"], response["error"]["code"]) == (1, -32602), (method, params)
        assert response["error"]["data"]["path"] == path, (method, params)
        assert still_answers(survivor_v1), (method, params)


MISSING = [
    ("session/new", {"mcpServers": []}, "$", "cwd"),
    ("session/new", {}, "$", "cwd"),
    ("session/new", None, "$", "cwd"),
    ("session/prompt", {"sessionId": "s", "prompt": [{"type": "text"}]}, "$.prompt[0]", "text"),
]


@requirement("R-ERR-01", "R-GEN-09")
def test_missing_field_is_named_with_its_path(survivor_v1: Program) -> None:
    for method, params, path, field in MISSING:
        response = survivor_v1.ask(request(1, method, params))
        assert (response["id"], response["error"]["code"]) == (1, -32602), (method, params)
        assert response["error"]["data"]["path"] == path, (method, params)
        assert field in response["error"]["data"]["reason"], (method, params)


@requirement("R-INIT-10")
def test_invalid_protocol_version_is_reported_with_its_path() -> None:
    with program("agent.py") as running:
        for version in ("1", 1.5, -1, 65536, None, [], True):
            wrong = request(1, "initialize", {"protocolVersion": version})
            response = running.ask(wrong)
            assert (response["id"], response["error"]["code"]) == (1, -32602), version
            assert "protocolVersion" in response["error"]["data"]["path"], version
        assert "result" in running.ask(initialize())


@requirement("R-ERR-05")
def test_params_nested_too_deep_are_an_error(survivor_v1: Program) -> None:
    deep = b'{"a":' * 2000 + b"1" + b"}" * 2000
    survivor_v1.write(b'{"jsonrpc":"2.0","id":1,"method":"_echo","params":%b}\n' % deep)
    response = survivor_v1.receive()
    assert response.get("error", {}).get("code") in (None, -32602, -32700)
    assert still_answers(survivor_v1)


# Handlers that fail.


@requirement("R-ERR-05")
def test_exception_is_not_revealed_to_the_peer(survivor: Program) -> None:
    for method in ("_fail", "_fail_later", "_not_json"):
        line_error = survivor.ask(request(1, method))
        assert line_error == {
            "jsonrpc": "2.0",
            "id": 1,
            "error": {"code": -32603, "message": "Internal error"},
        }
        survivor.send(notification("_fail"))
        assert still_answers(survivor), method


@requirement("R-ERR-02")
def test_request_error_of_a_handler_is_sent_to_the_peer(survivor_v1: Program) -> None:
    response = survivor_v1.ask(request(1, "_refuse"))
    assert response["error"] == {
        "code": -32602,
        "message": "not like this",
        "data": {"hint": "like that"},
    }


@requirement("R-REQCAN-05", "R-REQCAN-06")
def test_cancelled_request_is_answered_once() -> None:
    cancel = notification("$/cancel_request", {"requestId": 1})
    with agent() as running:
        running.send(request(1, "_hold"), cancel, cancel)
        response = running.receive()
        assert (response["id"], response["error"]["code"]) == (1, -32800)
        running.send(cancel)
        assert still_answers(running)


@requirement("R-REQCAN-05")
def test_cancelled_turn_ends_with_cancelled() -> None:
    with agent() as running:
        running.send(prompt(1, "hang"), notification("$/cancel_request", {"requestId": 1}))
        assert running.receive()["result"] == {"stopReason": "cancelled"}
