"""Verdicts from what commands, functions and agents say."""

from __future__ import annotations

import contextlib
import json
import math
import numbers
import re
from typing import Any

import msgspec

from accord.text.lenient_json import is_object
from accord_fleet.types.result import Usage, Verdict

_SEARCHED = 64 * 1024  # characters at the end of a text
_OBJECT = re.compile(r'\{\s*"')
_CANDIDATES = 200  # a text that opens more objects costs no more time
_SHOWN = 100  # characters of a value in a message
_KEYS = ("passed", "score", "error")
_FIELDS: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "passed": ("true or false", bool),
    "score": ("a number", numbers.Real),
    "reason": ("a text", str),
    "error": ("a text", str),
    "details": ("an object", dict),
}

_decoder = json.JSONDecoder()


class NotAVerdict(ValueError):
    """A value is not a verdict; the message says what was expected."""


def verdict_of(value: Any) -> Verdict:
    """Return the verdict that a grader returned.

    True and False pass and fail. A number is a score; 1 or more passes. An object has `passed` or
    `score`, and may have `reason` and `details`. Raises `NotAVerdict`, with all that is wrong.
    """
    if isinstance(value, bool):
        return Verdict(passed=value)
    if isinstance(value, numbers.Real):
        return _scored(Verdict(score=_finite(value)))
    if isinstance(value, Verdict):
        value = {name: getattr(value, name) for name in Verdict.__struct_fields__}
    if not is_object(value) or all(value.get(key) is None for key in _KEYS):
        raise NotAVerdict(
            "expected a bool, a number or a verdict with `passed` or `score`, got"
            f" {type(value).__name__} {str(value)[:_SHOWN]}"
        )
    if wrong := [each for name in _FIELDS if (each := _why_wrong(name, value.get(name)))]:
        raise NotAVerdict(f"expected {'; '.join(wrong)}")
    given = {name: value[name] for name in _FIELDS if value.get(name) is not None}
    if "score" in given:
        given["score"] = _finite(given["score"])
    usage = value.get("usage")
    return _scored(Verdict(**given, usage=usage if isinstance(usage, Usage) else Usage()))


def last_verdict(text: str) -> Verdict | None:
    """Return the verdict of the last JSON object in a text that has `passed`, `score` or `error`.

    Raises `NotAVerdict` if these have values that make no verdict.
    """
    text = text[-_SEARCHED:]
    last: Any = None
    end = 0
    for match in [*_OBJECT.finditer(text)][-_CANDIDATES:]:
        if match.start() < end:
            continue  # inside of the object before
        with contextlib.suppress(ValueError, RecursionError):
            value, end = _decoder.raw_decode(text, match.start())
            if any(value.get(key) is not None for key in _KEYS):
                last = value
    return None if last is None else verdict_of(last)


def _why_wrong(name: str, value: Any) -> str | None:
    """Return what was expected and what came; None if the value is right or missing."""
    words, types = _FIELDS[name]
    is_right = isinstance(value, types) and isinstance(value, bool) == (name == "passed")
    if value is None or is_right:
        return None
    return f"`{name}` to be {words}, got {_shown(value)}"


def _shown(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)[:_SHOWN]
    except (TypeError, ValueError, RecursionError):
        return f"{type(value).__name__} {str(value)[:_SHOWN]}"


def _finite(score: Any) -> float:
    try:
        value = float(score)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise NotAVerdict(f"expected a finite score, got {value}")
    return value


def _scored(verdict: Verdict) -> Verdict:
    if verdict.passed is None and verdict.score is not None and verdict.error is None:
        return msgspec.structs.replace(verdict, passed=verdict.score >= 1)
    return verdict
