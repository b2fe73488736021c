"""Errors: classes, messages, and raising a received error again unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from accord import errors
from accord.errors import AccordError, DecodeError, NotOffered, ProtocolError, RequestError
from requirement import requirement

CODES = {
    -32700: errors.ParseError,
    -32600: errors.InvalidRequest,
    -32601: errors.MethodNotFound,
    -32602: errors.InvalidParams,
    -32603: errors.InternalError,
    -32800: errors.RequestCancelled,
    -32000: errors.AuthRequired,
    -32002: errors.ResourceNotFound,
    -32022: errors.VersionNotOffered,
    -33000: errors.McpLimitExceeded,
    -33001: errors.McpServerUnavailable,
    -33002: errors.McpBackendFailed,
}


@requirement("R-ERR-01")
@pytest.mark.parametrize(("code", "cls"), CODES.items())
def test_each_code_has_a_class_that_raises_it(code: int, cls: type[RequestError]) -> None:
    assert type(RequestError.of(code, "m")) is cls
    raised = cls()
    assert raised.code == code
    assert raised.message
    assert raised.data is None


@requirement("R-ERR-01")
@pytest.mark.parametrize("code", [*CODES, 0, 7, -32099, 2**31 - 1])
def test_received_error_can_be_raised_again_unchanged(code: int) -> None:
    error = RequestError.of(code, "message", {"a": 1})
    assert (error.code, error.message, error.data) == (code, "message", {"a": 1})
    assert str(error) == f"message ({code})"


ZOD = {"_errors": [], "mcpServers": {"_errors": [], "0": {"_errors": ["Required"]}}}
PYDANTIC = {
    "errors": [
        {"type": "missing", "loc": ["mcpServers", 0, "name"], "msg": "Field required", "input": {}},
        {"type": "missing", "loc": ["cwd"], "msg": "Field required", "input": {"key": "sk-1"}},
    ]
}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("model 'x' not found", "model 'x' not found"),
        ({"details": "no credit left"}, "no credit left"),
        ({"message": "no credit left", "code": 402}, "no credit left"),
        ({"reason": "no credit left", "apiKey": "sk-1"}, "no credit left"),
        ({"error": {"type": "overloaded", "message": "Overloaded"}}, "Overloaded"),
        ({"cause": {"cause": {"message": "ENOENT: git"}}}, "ENOENT: git"),
        ({"details": json.dumps({"error": {"message": "Overloaded"}})}, "Overloaded"),
        ({"details": 'API error: {"broken'}, 'API error: {"broken'),
        ({"details": '{"broken'}, '{"broken'),
        (PYDANTIC, "mcpServers.0.name: Field required; cwd: Field required"),
        (ZOD, "mcpServers.0: Required"),
        ({"errors": ["one", "two", "three", "four"]}, "one; two; three"),
        (["first", {"message": "second"}], "first; second"),
        ({"details": "one\n  at two\r\n"}, "one at two"),
        ({"details": "\x1b[31mred\x07\u202e"}, "\\x1b[31mred\\x07\\u202e"),
        ({"method": "session/x"}, "session/x"),
    ],
)
def test_reason_in_the_data_of_an_error_is_shown(data: Any, reason: str) -> None:
    error = RequestError.of(-32603, "Internal error", data)
    assert error.reason == reason
    assert str(error) == f"Internal error: {reason} (-32603)"
    assert (error.message, error.data) == ("Internal error", data)


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        [],
        5,
        "",
        {"details": ""},
        {"details": None},
        {"details": "internal error."},
        {"apiKey": "sk-1", "headers": {"authorization": "Bearer x"}},
        {"path": "$", "reason": "Internal"},
    ],
)
def test_data_without_a_reason_adds_nothing(data: Any) -> None:
    assert str(RequestError.of(-32603, "Internal error", data)) == "Internal error (-32603)"


def nested(levels: int) -> Any:
    data: Any = "deep"
    for _ in range(levels):
        data = {"error": data}
    return data


@pytest.mark.parametrize(
    "data",
    [
        {"details": "x" * 10_000_000},
        {"details": "x y " * 100_000},
        {"errors": [{"message": f"{number} " + "x" * 1000} for number in range(10_000)]},
        [[[["x" * 300] * 100] * 100] * 100],
        {"details": "[" * 50_000},
        nested(10_000),
    ],
    ids=["long", "words", "many", "tree", "deep text", "deep"],
)
def test_text_of_an_error_is_limited(data: Any) -> None:
    error = RequestError.of(-32603, "m" * 100_000, data)
    assert len(str(error)) < 2000


def test_message_of_an_error_is_shown_without_control_characters() -> None:
    assert str(RequestError.of(1, "a\x1b]0;t\x07b")) == "a\\x1b]0;t\\x07b (1)"


def test_empty_message_stays_empty() -> None:
    assert RequestError.of(-32603, "").message == ""


def test_all_errors_of_the_package_have_one_base() -> None:
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), AccordError)


def test_unsupported_call_names_the_gate() -> None:
    error = NotOffered("session/load", "agent.load_session")
    assert isinstance(error, ProtocolError)
    assert (error.method, error.gate) == ("session/load", "agent.load_session")
    assert str(error) == "session/load needs agent.load_session, which the peer did not offer"


def test_decode_error_has_the_path_from_the_root() -> None:
    error = DecodeError("Expected `str`").within("text").within(2).within("content")
    assert error.path == ("content", 2, "text")
    assert str(error) == "Expected `str` at $.content[2].text"
    assert isinstance(error, ValueError)


def test_decode_error_shortens_long_values() -> None:
    error = DecodeError("Invalid value " + "x" * 100_000, ("y" * 100_000,))
    assert len(str(error)) < 500
    assert error.path == ("y" * 100_000,)


def test_lost_connection_has_the_exit_status_of_the_peer() -> None:
    error = errors.ConnectionLost("gone", exit_status=3, stderr="boom")
    assert (error.exit_status, error.stderr) == (3, "boom")
    assert isinstance(error, errors.TransportError)
