"""Errors say what they are, and an error that came can be raised again as it was."""

from __future__ import annotations

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
def test_what_came_is_raised_again_as_it_was(code: int) -> None:
    error = RequestError.of(code, "message", {"a": 1})
    assert (error.code, error.message, error.data) == (code, "message", {"a": 1})
    assert str(error) == f"message ({code})"


def test_an_empty_message_stays_empty() -> None:
    assert RequestError.of(-32603, "").message == ""


def test_all_errors_of_the_package_have_one_base() -> None:
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), AccordError)


def test_a_call_that_was_not_offered_names_the_gate() -> None:
    error = NotOffered("session/load", "agent.load_session")
    assert isinstance(error, ProtocolError)
    assert (error.method, error.gate) == ("session/load", "agent.load_session")
    assert str(error) == "session/load needs agent.load_session, which the peer did not offer"


def test_a_decode_error_shows_the_path_from_the_root() -> None:
    error = DecodeError("Expected `str`").within("text").within(2).within("content")
    assert error.path == ("content", 2, "text")
    assert str(error) == "Expected `str` at $.content[2].text"
    assert isinstance(error, ValueError)


def test_a_decode_error_tells_what_is_long_in_short() -> None:
    error = DecodeError("Invalid value " + "x" * 100_000, ("y" * 100_000,))
    assert len(str(error)) < 500
    assert error.path == ("y" * 100_000,)


def test_a_lost_connection_tells_how_the_peer_ended() -> None:
    error = errors.ConnectionLost("gone", exit_status=3, stderr="boom")
    assert (error.exit_status, error.stderr) == (3, "boom")
    assert isinstance(error, errors.TransportError)
