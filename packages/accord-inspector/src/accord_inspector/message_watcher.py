"""What one page sees of the messages: those that its filter selects, as they come."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from accord.text.lenient_json import is_object
from accord_inspector.json_http import ApiError
from accord_inspector.judged import Judged
from accord_inspector.messages import Messages, View
from accord_inspector.queries import MappedParams, Params, rule_of
from accord_inspector.rows import row_json
from accord_trace.selection import Filter

_ROWS = 50  # the newest of those that came, in one message to the page
_RATE_S = 1.0


class MessageWatcher:
    """Counts the messages for one page, and passes the newest rows of its list.

    It also counts the messages that break rules, with any filter.

    The page says by `{"watch": {…filter…}, "recording": "…", "rows": true, "number": 1}` what it
    shows; what it gets has the number of its newest request.
    """

    def __init__(
        self,
        messages: Callable[[str], Messages],
        wanted: Callable[[Params, str], Filter],
        judged: Callable[[str], Judged],
    ) -> None:
        self._messages_of = messages
        self._wanted_of = wanted
        self._judged_of = judged
        self._judged: Judged | None = None
        self._wanted: Callable[[], Filter] | None = None  # if it changes with what is found
        self._messages: Messages | None = None
        self._view: View | None = None
        self._with_rows = False
        self._last: tuple[int, int, bool, int] | None = None
        self._sent = 0
        self._counted = (0.0, 0)  # a time, and the messages at it
        self._rate = 0.0
        self._problem = ""
        self._number: object = None

    def watch(self, request: dict[str, Any]) -> None:
        """Show the messages that a request of the page describes."""
        given = request.get("watch")
        recording = request.get("recording")
        self._number = request.get("number")
        self._last = None
        self._wanted = None
        params = MappedParams(given if is_object(given) else {})
        name = recording if isinstance(recording, str) else ""
        try:
            self._messages = self._messages_of(name)
            self._judged = self._judged_of(name)
            wanted = self._wanted_of(params, name)
        except ApiError as error:
            self._messages = None
            self._show(None)
            self._problem = error.text
            return
        self._problem = ""
        if rule_of(params):
            self._wanted = lambda: self._wanted_of(params, name)
        view = self._messages.view(wanted)
        self._show(view)
        self._with_rows = request.get("rows") is True
        self._sent = len(view)
        self._counted = (perf_counter(), len(self._messages))

    async def work(self, limit_s: float) -> bool:
        """Apply the filter to more messages; return whether there is more to do."""
        if self._messages is not None and self._wanted is not None:
            self._show(self._messages.view(self._wanted()))
        if self._view is None:
            return False
        return not await self._view.complete(limit_s)

    def is_moving(self) -> bool:
        """Return whether the rate will change without new messages."""
        return self._view is not None and self._rate > 0

    def close(self) -> None:
        """Show nothing any more: what only this page has searched for is not searched on."""
        self._messages = self._wanted = None
        self._show(None)

    def _show(self, view: View | None) -> None:
        if view is self._view:
            return
        if view is not None:
            view.watched()
        if self._view is not None:
            self._view.left()
        self._view = view

    def tick(self) -> dict[str, Any] | None:
        """Return the counts, the rate, and the newest rows; None if nothing has changed."""
        messages, view = self._messages, self._view
        if messages is None or view is None:
            problem, self._problem = self._problem, ""
            return {"watch": self._number, "problem": problem} if problem else None
        is_complete = messages.is_read and view.is_complete
        revision = 0 if self._judged is None else self._judged.revision
        state = (len(messages), len(view), is_complete, revision)
        if state == self._last and (not self._rate or not self._is_second_over()):
            return None
        self._last = state
        total, matched, *_ = state
        message: dict[str, Any] = {
            "watch": self._number,
            "total": total,
            "matched": matched,
            "complete": is_complete,
            "rate": self._rate_at(total),
            "broken": 0 if self._judged is None else len(self._judged.numbers("any")),
        }
        # More come in a tenth of a second than a page can show.
        message["sampled"] = matched - self._sent > _ROWS
        if self._with_rows and matched > self._sent:
            first = max(self._sent, matched - _ROWS)
            message["from"] = first
            message["rows"] = list(map(row_json, view.rows(first, _ROWS)))
            message["skipped"] = first - self._sent
        self._sent = matched
        return message

    def _rate_at(self, total: int) -> float:
        """Return the messages per second, of about the last second."""
        if self._is_second_over():
            since, count = self._counted
            now = perf_counter()
            self._rate = round((total - count) / (now - since), 1)
            self._counted = (now, total)
        return self._rate

    def _is_second_over(self) -> bool:
        """Return whether the rate is to be counted again."""
        return perf_counter() - self._counted[0] >= _RATE_S
