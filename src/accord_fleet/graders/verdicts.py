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
from accord_fleet.types.result import Verdict

__all__ = ("NotAVerdict", "last_verdict", "verdict_of")

_SEARCHED = 64 * 1024  # characters at the end of a text
_OBJECT = re.compile(r'\{\s*"')
_CANDIDATES = 200  # a text that opens more objects costs no more time
_KEYS = ("passed", "score", "error")

_decoder = json.JSONDecoder()


class NotAVerdict(ValueError):
    """A value is not a verdict; the message says what was expected."""


def verdict_of(value: Any) -> Verdict:
    """Return the verdict that a grader returned.

    True and False pass and fail. A number is a score; 1 or more passes. An object has `passed` or
    `score`, and may have `reason` and `details`. Raises `NotAVerdict`.
    """
    if isinstance(value, bool):
        return Verdict(passed=value)
    if isinstance(value, numbers.Real):
        return _scored(Verdict(score=float(value)))
    given = msgspec.to_builtins(value) if isinstance(value, Verdict) else value
    if not is_object(given) or all(given.get(key) is None for key in _KEYS):
        what = f"{type(value).__name__} {str(value)[:100]}"
        raise NotAVerdict(
            f"expected a bool, a number or a verdict with `passed` or `score`, got {what}"
        )
    try:
        return _scored(msgspec.convert(given, Verdict))
    except msgspec.ValidationError as error:
        raise NotAVerdict(f"expected a verdict: {error}") from error


def last_verdict(text: str) -> Verdict | None:
    """Return the verdict of the last JSON object with `passed` or `score` in a text."""
    text = text[-_SEARCHED:]
    found: Verdict | None = None
    end = 0
    for match in [*_OBJECT.finditer(text)][-_CANDIDATES:]:
        if match.start() < end:
            continue  # inside of the object before
        with contextlib.suppress(ValueError, RecursionError):
            value, end = _decoder.raw_decode(text, match.start())
            found = verdict_of(value)
    return found


def _scored(verdict: Verdict) -> Verdict:
    score = verdict.score
    if score is not None and not math.isfinite(score):
        raise NotAVerdict(f"expected a finite score, got {score}")
    if verdict.passed is None and score is not None and verdict.error is None:
        return msgspec.structs.replace(verdict, passed=score >= 1)
    return verdict
