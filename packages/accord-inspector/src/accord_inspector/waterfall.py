"""The requests of a recording by session and turn, with the time that each took."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from accord_inspector.inspection import Inspection
from accord_inspector.json_http import ApiError, json_response
from accord_inspector.messages import Messages, View
from accord_trace.filtering import Filter
from accord_trace.message_index import MessageRow

_ROWS = 500  # in one window
_FILTER_S = 0.3
_TURN = "session/prompt"


class _Group(Struct):
    """The requests of one session, in order; `depths` is 1, or 2 within a turn."""

    session: str | None
    numbers: array[int] = field(default_factory=lambda: array("I"))
    depths: array[int] = field(default_factory=lambda: array("B"))
    prompt: int | None = None  # the newest one

    def add(self, row: MessageRow, prompt_end: int | None) -> None:
        if row.method == _TURN and row.direction == "to_agent":
            self.prompt = row.number
            depth = 1
        else:
            # Agents ask during turns; in version 2, the response to a prompt comes at once.
            is_inside = (
                row.direction == "to_client" or prompt_end is None or prompt_end > row.number
            )
            depth = 2 if self.prompt is not None and is_inside else 1
        self.numbers.append(row.number)
        self.depths.append(depth)


class Waterfall:
    """A list with a heading for each session, and its requests below it.

    Requests without a session come first. `update` adds those that have come since.
    """

    def __init__(self, messages: Messages, view: View) -> None:
        self._index = messages.index
        self._view = view
        self._seen = 0
        self._groups: dict[str | None, _Group] = {}

    def __len__(self) -> int:
        return self._seen + len(self._groups)

    @property
    def requests(self) -> int:
        """The number of requests."""
        return self._seen

    def update(self) -> None:
        """Add the requests that were read since the last call."""
        for number in self._view.numbers()[self._seen :]:
            row = self._index.row(number)
            group = self._groups.setdefault(row.session, _Group(row.session))
            prompt = group.prompt
            group.add(row, None if prompt is None else self._index.row(prompt).pair)
            self._seen += 1

    def rows(self, first: int, count: int) -> Iterator[dict[str, Any]]:
        """Yield a window of the list, as the page shows it."""
        at = 0
        groups = sorted(self._groups.values(), key=lambda group: group.session is not None)
        for group in groups:
            size = 1 + len(group.numbers)
            if at + size > first and at < first + count:
                for place in range(max(first - at, 0), min(first + count - at, size)):
                    yield self._heading(group) if place == 0 else self._row(group, place - 1)
            at += size

    def _heading(self, group: _Group) -> dict[str, Any]:
        return {
            "group": group.session or "",
            "count": len(group.numbers),
            "ts": self._index.row(group.numbers[0]).ts,
            "end": max(map(self._end, group.numbers)),
        }

    def _end(self, number: int) -> float:
        columns = self._index.columns
        pair = self._index.row(number).pair
        return columns.times[-1 if pair is None else pair]

    def _row(self, group: _Group, place: int) -> dict[str, Any]:
        row = self._index.row(group.numbers[place])
        return {
            "n": row.number,
            "ts": row.ts,
            "seconds": row.latency_s,
            "method": row.method,
            "dir": row.direction,
            "from": row.sender,
            "depth": group.depths[place],
            "error": row.pair is not None and self._index.row(row.pair).is_error,
        }


def waterfall_routes(inspection: Inspection) -> Sequence[BaseRoute]:
    """Return the route of the waterfall."""
    known: dict[View, Waterfall] = {}

    async def waterfall(request: Request) -> Response:
        """Return a window of the list, and the time from the first message to the last."""
        params = request.query_params
        try:
            first, count = int(params.get("from", "0")), int(params.get("count", "100"))
        except ValueError:
            raise ApiError(400, "from, count: expected whole numbers") from None
        messages = inspection.messages(params.get("recording", ""))
        sessions = tuple(filter(None, params.getlist("session")))
        view = messages.view(Filter(kinds=("request",), sessions=sessions))
        is_complete = await view.complete(_FILTER_S)
        found = known.pop(view, None) or Waterfall(messages, view)
        known.clear()  # the one that is shown is kept
        known[view] = found
        found.update()
        times = messages.index.columns.times
        return json_response(
            {
                "total": len(found),
                "requests": found.requests,
                "complete": is_complete and messages.is_read,
                "start": times[0] if times else 0.0,
                "end": times[-1] if times else 0.0,
                "rows": list(found.rows(max(first, 0), min(max(count, 0), _ROWS))),
            }
        )

    return (Route("/api/waterfall", waterfall),)
