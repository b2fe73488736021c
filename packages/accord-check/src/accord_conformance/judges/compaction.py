"""Compactions of a session's context."""

from __future__ import annotations

from typing import Any

from accord_conformance.judges.base import Judge
from accord_conformance.traffic.connection_state import update_of
from accord_conformance.traffic.message import Notification
from accord_conformance.traffic.strict_types import format_value

_FINAL = ("completed", "failed", "cancelled")


class Compaction(Judge):
    """R-COMP."""

    rules = ("R-COMP-03",)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # The last status and its message, by session and compaction.
        self._last: dict[tuple[str | None, str], tuple[Any, Notification]] = {}

    def on_notification(self, note: Notification) -> None:
        update = update_of(note)
        if note.method != "session/update" or update.get("sessionUpdate") != "compaction_update":
            return
        key, status = (note.session_id, repr(update.get("compactionId"))), update.get("status")
        previous = self._last.get(key)
        if status in _FINAL:
            self.judge(
                "R-COMP-03",
                previous is None or previous[0] not in _FINAL or previous[0] == status,
                previous[1] if previous else None,
                note,
                expected="one final status",
                got=f"{format_value(status)} after {format_value(previous and previous[0])}",
            )
        self._last[key] = (status, note)
