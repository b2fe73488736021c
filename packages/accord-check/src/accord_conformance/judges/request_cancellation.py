"""`$/cancel_request`."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_object
from accord_conformance.judges.base import Judge
from accord_conformance.traffic.frame import Side
from accord_conformance.traffic.message import Notification, Request
from accord_conformance.traffic.strict_types import format_value


class RequestCancellation(Judge):
    """R-REQCAN."""

    rules = ("R-REQCAN-02",)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._ids: dict[Side, set[str]] = {"agent": set(), "client": set()}

    def on_request(self, call: Request) -> None:
        self._ids[call.sender].add(repr(call.id))

    def on_notification(self, note: Notification) -> None:
        if note.method != "$/cancel_request" or not is_object(note.params):
            return
        ident = note.params.get("requestId")
        self.judge(
            "R-REQCAN-02",
            repr(ident) in self._ids[note.sender] or not self.state.requests,
            note,
            expected="the id of a request of the same sender",
            got=format_value(ident),
            by=note.sender,
        )
