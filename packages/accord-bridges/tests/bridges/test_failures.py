"""What an exception of a framework means for its turn."""

from __future__ import annotations

from typing import Any

import pytest

from accord_bridges.failures import explain
from accord_bridges.testing import Failure, ModelError


class HttpError(Exception):
    """As the exceptions of clients of HTTP are."""

    def __init__(self, message: str, status_code: int, headers: dict[str, str] | None = None):
        super().__init__(message)
        self.response = type("Response", (), {"status_code": status_code, "headers": headers or {}})


def named(name: str, message: str = "why", **attributes: Any) -> Exception:
    """Return an exception of a class with this name."""
    return type(name, (Exception,), attributes)(message)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("failure", "stop_reason", "says"),
    [
        ("rate_limit", None, "limits the rate"),
        ("context_length", "max_tokens", "too long for the model"),
        ("refusal", "refusal", "refused"),
        ("no_key", None, "Set OPENAI_API_KEY in the environment"),
    ],
)
def test_errors_of_providers(failure: Failure, stop_reason: str | None, says: str) -> None:
    found = explain(ModelError(failure))
    assert found.stop_reason == stop_reason
    assert says in found.text


@pytest.mark.parametrize(
    ("error", "stop_reason", "says"),
    [
        (HttpError("slow down", 429, {"retry-after": "7"}), None, "Try again in 7 s."),
        (HttpError("slow down", 429), None, "Try again later."),
        (HttpError("overloaded", 503), None, "has failed (status 503): overloaded"),
        (HttpError("who?", 403), None, "without a valid key: who?"),
        (HttpError("no such model", 404), None, "no such model"),
        (named("RateLimitError"), None, "limits the rate"),
        (named("GraphRecursionError"), "max_turn_requests", "too many steps: why"),
        (named("MaxTurnsExceeded"), "max_turn_requests", "too many steps"),
        (named("ContentFilterError"), "refusal", "The model refused: why"),
        (named("APIConnectionError", "Connection error."), None, "cannot be reached"),
        (ConnectionRefusedError(111, "Connect call failed"), None, "cannot be reached"),
        (caused(RuntimeError("the run failed"), HttpError("no", 429)), None, "limits the rate"),
        (ExceptionGroup("unhandled", [named("RateLimitError")]), None, "limits the rate"),
        (
            ExceptionGroup("unhandled", [ValueError("one"), ModelError("context_length")]),
            "max_tokens",
            "too long",
        ),
        (
            ExceptionGroup("unhandled", [ValueError("one"), KeyError("two")]),
            None,
            "ValueError: one\n\nKeyError: 'two'",
        ),
        (ValueError("the tool is\n  broken"), None, "ValueError: the tool is broken"),
        (TimeoutError(), None, "TimeoutError"),
    ],
)
def test_exceptions_of_frameworks(error: Exception, stop_reason: str | None, says: str) -> None:
    found = explain(error)
    assert found.stop_reason == stop_reason, found
    assert says in found.text


def test_words_of_a_tool_are_no_refusal_of_the_model() -> None:
    assert explain(ValueError("the safety valve: Connection refused")).stop_reason is None


def test_circle_of_causes_and_long_text_end() -> None:
    first, second = ValueError("x" * 9000), KeyError("b")
    first.__cause__, second.__cause__ = second, first
    assert len(explain(first).text) < 2100
