"""Filters of the list of messages, as query parameters of addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Protocol, cast

import jsonpath
from msgspec import Struct

from accord.text import lenient_json
from accord.trace.records import Record
from accord_inspector.errors import ApiError
from accord_inspector.rows import Row

__all__ = ("MappedParams", "Params", "Query", "query_of")


class Params(Protocol):
    """Query parameters, of which some are repeated."""

    def getlist(self, key: str, /) -> Sequence[str]: ...


class Query(Struct, frozen=True, kw_only=True):
    """What to list; a message must meet every condition that is set.

    `methods` are patterns such as `session/*`; `direction` is `to_agent` or `to_client`; `path` is
    a JSONPath expression that must select something in the message.
    """

    methods: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    direction: str = ""
    text: str = ""
    path: str = ""
    errors: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether every message is listed."""
        return self == Query()

    def fits_row(self, row: Row) -> bool:
        """Return whether a message meets the conditions on its row."""
        if self.direction and row.dir != self.direction:
            return False
        if self.errors and not row.is_error:
            return False
        if self.methods and not any(fnmatchcase(row.method, one) for one in self.methods):
            return False
        return not self.sessions or row.session in self.sessions

    @property
    def reads_records(self) -> bool:
        """Whether there are conditions on the contents of messages."""
        return bool(self.text or self.path)

    def fits_record(self, record: Record) -> bool:
        """Return whether a message meets the conditions on its contents."""
        frame = record.frame
        if self.text and self.text.casefold() not in frame.decode("utf-8", "replace").casefold():
            return False
        if not self.path:
            return True
        try:
            value = lenient_json.loads(frame)
        except lenient_json.NotJson:
            return False
        return jsonpath.match(self.path, value) is not None


def query_of(params: Params) -> Query:
    """Return the filter of an address: `method`, `session`, `direction`, `text`, `path`, `errors`.

    Raise `ApiError` if it is invalid.
    """
    direction = _last(params, "direction")
    if direction not in ("", "to_agent", "to_client"):
        raise ApiError(400, f"direction: expected to_agent or to_client, got {direction!r}")
    path = _last(params, "path")
    if path:
        try:
            jsonpath.compile(path)
        except jsonpath.JSONPathError as error:
            raise ApiError(400, f"path: expected a JSONPath expression: {error}") from None
    return Query(
        methods=tuple(filter(None, params.getlist("method"))),
        sessions=tuple(filter(None, params.getlist("session"))),
        direction=direction,
        text=_last(params, "text"),
        path=path,
        errors=_last(params, "errors") in ("1", "true"),
    )


def _last(params: Params, key: str) -> str:
    found = params.getlist(key)
    return found[-1] if found else ""


class MappedParams:
    """Query parameters as JSON: each a string or a list of strings."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    def getlist(self, key: str) -> Sequence[str]:
        value = self._values.get(key, [])
        items = cast("list[object]", value) if isinstance(value, list) else [value]
        return [item for item in items if isinstance(item, str)]
