"""What the page reads and sends in words of its own: filters in addresses, names of types."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypeVar, cast

from accord_terminal.conversation import ApiError
from accord_trace.reading import TraceError
from accord_trace.records import Direction, Kind
from accord_trace.search import JsonPath
from accord_trace.selection import Filter

# The page is read by developers of any language: errors name types as JSON does.

_WORDS: Final[dict[str, str]] = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "array": "array",
    "dict": "object",
    "object": "object",
    "None": "null",
    "null": "null",
}
_QUOTED = re.compile(r"`((?:\w+)(?: \| \w+)*)`")


def json_words(text: str) -> str:
    """Return a text of an error with JSON's names of types: ``Expected string, got integer``."""
    return _QUOTED.sub(_renamed, text)


def _renamed(found: re.Match[str]) -> str:
    names = found[1].split(" | ")
    if not all(name in _WORDS for name in names):
        return found[0]
    return " or ".join(_WORDS[name] for name in names)


# Filters of the list of messages, as query parameters

_DIRECTIONS: dict[str, Direction | None] = {
    "": None,
    "to_agent": "to_agent",
    "to_client": "to_client",
}
_KINDS: dict[str, Kind] = {
    "request": "request",
    "response": "response",
    "notification": "notification",
    "invalid": "invalid",
    "end": "end",
}

T = TypeVar("T")


class Params(Protocol):
    """Query parameters, of which some are repeated."""

    def getlist(self, key: str, /) -> Sequence[str]: ...


def filter_of(params: Params) -> Filter:
    """Return the filter of an address; raise `ApiError` if it is invalid.

    `method`, `session`, `kind` and `hop` (two components with a comma) may be repeated;
    `direction`, `text`, `path` (JSONPath), `errors`, `since`, `until` and `latency` (seconds).
    """
    path = _last(params, "path")
    if path:
        try:
            JsonPath(path)
        except TraceError as error:
            raise ApiError(400, str(error)) from None
    return Filter(
        methods=tuple(filter(None, params.getlist("method"))),
        sessions=tuple(filter(None, params.getlist("session"))),
        direction=_one_of("direction", _last(params, "direction"), _DIRECTIONS),
        kinds=tuple(_one_of("kind", kind, _KINDS) for kind in params.getlist("kind") if kind),
        hops=tuple(map(_hop, filter(None, params.getlist("hop")))),
        errors=_last(params, "errors") in ("1", "true"),
        since=_seconds(params, "since"),
        until=_seconds(params, "until"),
        min_latency_s=_seconds(params, "latency"),
        text=_last(params, "text"),
        json_path=path,
    )


def rule_of(params: Params) -> str:
    """Return the id of the rule that the messages break; `any` for any one, or an empty text."""
    return _last(params, "rule")


class MappedParams:
    """Query parameters as JSON: each a string or a list of strings."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    def getlist(self, key: str) -> Sequence[str]:
        value = self._values.get(key, [])
        items = cast("list[object]", value) if isinstance(value, list) else [value]
        return [item for item in items if isinstance(item, str)]


def _last(params: Params, key: str) -> str:
    found = params.getlist(key)
    return found[-1] if found else ""


def _one_of(name: str, given: str, known: Mapping[str, T]) -> T:
    if given not in known:
        expected = ", ".join(filter(None, known))
        raise ApiError(400, f"{name}: expected one of: {expected}, got {given!r}")
    return known[given]


def _hop(text: str) -> tuple[str, str]:
    sender, comma, receiver = text.partition(",")
    if not comma:
        raise ApiError(400, f"hop: expected two components such as Client,Agent, got {text!r}")
    return sender, receiver


def _seconds(params: Params, key: str) -> float | None:
    text = _last(params, key)
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise ApiError(400, f"{key}: expected seconds, got {text!r}") from None
