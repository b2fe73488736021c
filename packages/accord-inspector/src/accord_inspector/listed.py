"""The rows of the list, with what each message says and which rules it breaks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from accord_inspector.judged import Judged
from accord_inspector.messages import Messages
from accord_inspector.rows import row_json
from accord_trace.message_index import MessageRow
from accord_trace.search import TextSearch
from accord_trace.summary import summary

_CHARACTERS = 160
_MAX_BYTES = 64 * 1024  # of a message that is decoded for its row
_MAX_RULES = 5
_MATCH_BYTES = 64 * 1024 * 1024  # that are searched for the excerpts of one request
_BEFORE = 60  # bytes of an excerpt
_AFTER = 160
_ESCAPES = re.compile(r"(?:\\u[0-9a-fA-F]{4})+|\\.")
_NO_FAULTS: Mapping[int, str] = MappingProxyType({})


def listed(
    messages: Messages,
    rows: Iterable[MessageRow],
    judged: Judged | None,
    faults: Mapping[int, str] = _NO_FAULTS,
    now: Callable[[float], float | None] | None = None,
    text: str = "",
) -> list[dict[str, Any]]:
    """Return rows for the page: `summary` is one line, `rules` are the ids of broken rules.

    `severity` is that of the worst one: error, warning or advice. `fault` is what a fault of the
    inspector did to the message. A request without a response has `waits`: for how many seconds,
    or null if none will come; `now` is the time in the recording at which a message of a time can
    still be answered. Without it, not all messages are known. With the `text` of a filter, `match`
    is where a message has it first: what is before, the text, and what follows.
    """
    found = [_listed(messages, row, judged, faults) for row in rows]
    if text:
        _add_matches(messages, found, TextSearch(text))
    if now is None:
        return found
    for row in found:
        if row["kind"] == "request" and "pair" not in row:
            time = now(row["ts"])
            row["waits"] = None if time is None else round(max(time - row["ts"], 0.0), 1)
    return found


def _add_matches(messages: Messages, rows: list[dict[str, Any]], search: TextSearch) -> None:
    left = _MATCH_BYTES
    for row in rows:
        left -= row["bytes"]
        if left < 0 and row is not rows[0]:
            return
        line = messages.index.line(row["n"])
        place = search.place_in(line)
        if place is not None:
            start, end = place
            parts = (
                line[max(start - _BEFORE, 0) : start],
                line[start:end],
                line[end : end + _AFTER],
            )
            # Characters that are cut at the ends of the excerpt are left out.
            row["match"] = [_readable(part.decode("utf-8", "ignore")) for part in parts]


def _readable(text: str) -> str:
    """Return a part of JSON text with letters and quotes in place of their escapes."""
    return _ESCAPES.sub(_unescaped, text)


def _unescaped(match: re.Match[str]) -> str:
    found = match[0]
    if found.startswith("\\u"):
        return bytes.fromhex(found.replace("\\u", "")).decode("utf-16-be", "replace")
    return found[1] if found[1] in '"\\/' else found


def _listed(
    messages: Messages, row: MessageRow, judged: Judged | None, faults: Mapping[int, str]
) -> dict[str, Any]:
    found = row_json(row)
    if (fault := faults.get(row.number)) is not None:
        found["fault"] = fault
    if row.bytes <= _MAX_BYTES:
        found["summary"] = summary(messages.record(row.number), _CHARACTERS)
    broken = judged.broken(row.number) if judged is not None else []
    if broken:
        found["rules"] = list(dict.fromkeys(one.rule for one in broken))[:_MAX_RULES]
        found["severity"] = broken[0].severity
    return found
