"""The rows of the list, with what each message says and which rules it breaks."""

from __future__ import annotations

from collections.abc import Iterable
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


def listed(
    messages: Messages, rows: Iterable[MessageRow], judged: Judged | None
) -> list[dict[str, Any]]:
    """Return rows for the page: `summary` is one line, `rules` are the ids of broken rules.

    `severity` is that of the worst one: error, warning or advice.
    """
    return [_listed(messages, row, judged) for row in rows]


def _listed(messages: Messages, row: MessageRow, judged: Judged | None) -> dict[str, Any]:
    found = row_json(row)
    if row.bytes <= _MAX_BYTES:
        found["summary"] = summary(messages.record(row.number), _CHARACTERS)
    broken = judged.broken(row.number) if judged is not None else []
    if broken:
        found["rules"] = list(dict.fromkeys(one.rule for one in broken))[:_MAX_RULES]
        found["severity"] = broken[0].severity
    return found
