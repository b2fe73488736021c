"""The rows of the list, with what each message says and which rules it breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from accord.trace.message_index import MessageRow
from accord.trace.summary import summary
from accord_inspector.judged import Judged
from accord_inspector.messages import Messages
from accord_inspector.rows import row_json

__all__ = ("listed",)

_CHARACTERS = 160
_MAX_BYTES = 64 * 1024  # of a message that is decoded for its row
_MAX_RULES = 5
_NO_FAULTS: Mapping[int, str] = MappingProxyType({})


def listed(
    messages: Messages,
    rows: Iterable[MessageRow],
    judged: Judged | None,
    faults: Mapping[int, str] = _NO_FAULTS,
    now: Callable[[float], float | None] | None = None,
) -> list[dict[str, Any]]:
    """Return rows for the page: `summary` is one line, `rules` are the ids of broken rules.

    `severity` is that of the worst one: error, warning or advice. `fault` is what a fault of the
    inspector did to the message. A request without a response has `waits`: for how many seconds,
    or null if none will come; `now` is the time in the recording at which a message of a time can
    still be answered. Without it, not all messages are known.
    """
    found = [_listed(messages, row, judged, faults) for row in rows]
    if now is None:
        return found
    for row in found:
        if row["kind"] == "request" and "pair" not in row:
            time = now(row["ts"])
            row["waits"] = None if time is None else round(max(time - row["ts"], 0.0), 1)
    return found


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
