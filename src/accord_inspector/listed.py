"""The rows of the list, with what each message says and which rules it breaks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
) -> list[dict[str, Any]]:
    """Return rows for the page: `summary` is one line, `rules` are the ids of broken rules.

    `severity` is that of the worst one: error, warning or advice. `fault` is what a fault of the
    inspector did to the message.
    """
    return [_listed(messages, row, judged, faults) for row in rows]


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
