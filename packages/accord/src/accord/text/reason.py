"""Finds the reason of a JSON-RPC error in its `data`, where each peer uses another key."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from accord.text import lenient_json
from accord.text.excerpt import one_line

# In this order. Values of other keys are never shown: they may be secrets.
_KEYS = (
    "details",
    "detail",
    "reason",
    "message",
    "msg",
    "description",
    "error_description",
    "error",
    "errors",
    "_errors",
    "issues",
    "cause",
    "data",
    "method",
    "uri",
)
_MAX_CHARACTERS = 500
_MAX_TEXTS = 3
_MAX_LEVELS = 6
_MAX_ITEMS = 64  # keys and list items that are looked at
_MAX_JSON = 64_000  # characters of a string that is read as JSON


def reason_of(message: str, data: Any) -> str | None:
    """Return the reason in `data` in addition to `message`, as one line, or None."""
    found: list[str] = []
    for text in islice(_texts(data, _MAX_LEVELS), _MAX_ITEMS):
        short = one_line(" ".join(text[:_MAX_JSON].split()), _MAX_CHARACTERS)
        if not short or _is_said(short, message, *found):
            continue
        found = [known for known in found if known not in short]
        found.append(short)
        if len(found) == _MAX_TEXTS:
            break
    return one_line("; ".join(found), _MAX_CHARACTERS) or None


def _is_said(text: str, *before: str) -> bool:
    text = text.rstrip(".").casefold()
    return any(text in known.casefold() for known in before)


def _texts(data: Any, levels: int) -> Iterator[str]:
    """Yield the texts that explain an error, the most specific first."""
    if levels == 0:
        return
    if isinstance(data, str):
        yield from _text(data, levels)
    elif lenient_json.is_array(data):
        for item in data[:_MAX_ITEMS]:
            yield from _texts(item, levels - 1)
    elif lenient_json.is_object(data):
        place = _place(data)
        for key in _KEYS:
            for text in _texts(data.get(key), levels - 1):
                yield f"{place}: {text}" if place else text
                place = ""
        yield from _by_field(data, levels - 1)


def _text(text: str, levels: int) -> Iterator[str]:
    """Yield a text; if it is JSON, yield its texts first, as those of a nested error."""
    if text.lstrip()[:1] in ("{", "[") and len(text) <= _MAX_JSON:
        try:
            nested = lenient_json.loads(text.encode("utf-8", "replace"))
        except ValueError:
            pass
        else:
            inner = list(_texts(nested, levels - 1))
            if inner:
                yield from inner
                return
    yield text


def _place(error: dict[str, Any]) -> str:
    """Return the place of a validator's error: `loc` or `path`, a list of names and numbers."""
    path: Any = error.get("loc", error.get("path"))
    if not lenient_json.is_array(path):
        return ""
    return ".".join(str(step) for step in path[:_MAX_ITEMS] if isinstance(step, str | int))


def _by_field(errors: dict[str, Any], levels: int) -> Iterator[str]:
    """Yield a validator's errors by field, if the fields are keys: `{a: {_errors: []}}`."""
    if levels <= 0:
        return
    for key, value in list(errors.items())[:_MAX_ITEMS]:
        if key in _KEYS or not lenient_json.is_object(value):
            continue
        for text in _texts(value.get("_errors"), levels - 1):
            yield f"{key}: {text}"
        for text in _by_field(value, levels - 1):
            yield f"{key}.{text}"
