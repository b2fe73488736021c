"""Reads the beginning of a frame that exceeds the size limit."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal

from msgspec import UNSET, Struct

HEAD_BYTES = 4096  # kept of an oversized frame


class Head(Struct, frozen=True):
    """The known parts of a message; `id` is `UNSET` if it is unknown."""

    kind: Literal["request", "response", "unknown"]
    id: Any = UNSET


def read_head(text: bytes) -> Head:
    """Return the kind and id of the message that begins like this."""
    keys: set[str] = set()
    found: dict[str, Any] = {}
    with suppress(ValueError, IndexError, RecursionError):  # at the end of the text
        _read(text.decode("utf-8", "replace"), keys, found)
    request_id = found.get("id", UNSET)
    if type(request_id) not in (int, str):
        request_id = UNSET
    if "method" in keys or "params" in keys:
        return Head("request", request_id)
    if "result" in keys or "error" in keys:
        return Head("response", request_id)
    return Head("unknown", request_id)


def _read(text: str, keys: set[str], found: dict[str, Any]) -> None:
    """Collect the keys of the outermost object, and its complete values."""
    import json  # slow to import, and frames this large are rare

    decode = json.JSONDecoder().raw_decode
    at = _skip(text, 0, "{")
    while True:
        key, at = decode(text, _skip(text, at))
        keys.add(key)
        value, at = decode(text, _skip(text, _skip(text, at, ":")))
        after = _skip(text, at)  # a number may be cut at the end of the text
        if text[after] not in ",}":
            return
        found[key] = value
        at = after + 1


def _skip(text: str, at: int, expected: str = "") -> int:
    """Return the position after white space and the expected character."""
    while text[at] in " \t\r\n":
        at += 1
    if expected:
        if text[at] != expected:
            raise ValueError(text[at])
        at += 1
    return at
