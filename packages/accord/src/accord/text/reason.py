"""What errors say beyond their message: the reason that a peer gives, the expected values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from msgspec import ValidationError, inspect

from accord.text import lenient_json
from accord.text.excerpt import one_line

# The reason of a JSON-RPC error is in its `data`, where each peer uses another key.
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


# Errors of msgspec about a value that is not one of a few do not name the expected ones.

_ERROR = re.compile(r"(Invalid enum value .*?)( - at `(.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[[^\]]*\]")


def validation_text(error: ValidationError, expected: Any) -> str:
    """Return the text of an error of msgspec; `expected` is the type that was decoded."""
    text = str(error)
    found = _ERROR.fullmatch(text)
    if found is None:
        return text
    values = _values(inspect.type_info(expected), _STEP.findall(found[3] or ""))
    if not values:
        return text
    return f"{found[1]}, expected {' or '.join(map(repr, values))}{found[2] or ''}"


def _values(kind: inspect.Type, path: list[str]) -> list[Any]:
    """Return the values of the type at a path: names of fields, or nothing for an item."""
    match kind:
        case inspect.UnionType(types=types):
            return [value for one in types for value in _values(one, path)]
        case inspect.Metadata(type=inner):
            return _values(inner, path)
        case inspect.LiteralType(values=values) if not path:
            return list(values)
        case inspect.EnumType(cls=cls) if not path:
            return [member.value for member in cls]
        case inspect.StructType(fields=fields) if path:
            inner_types = [field.type for field in fields if field.encode_name == path[0]]
            return [value for one in inner_types for value in _values(one, path[1:])]
        case inspect.DictType(value_type=inner) if path:
            return _values(inner, path[1:])
        case inspect.CollectionType(item_type=inner) if path:
            return _values(inner, path[1:])
        case _:
            return []
