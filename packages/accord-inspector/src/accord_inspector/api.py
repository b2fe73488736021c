"""The JSON API of the page. It is private: it may change with every version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from accord.remote.access import Refusal
from accord.text import lenient_json
from accord_inspector.agent_inspection import AgentInspection
from accord_inspector.inspection import Inspection
from accord_inspector.json_http import ApiError, body_of, json_response
from accord_inspector.listed import listed
from accord_inspector.messages import Messages, View
from accord_inspector.recording_inspection import FolderInspection
from accord_inspector.rows import row_json
from accord_inspector.sorting import SortedView

NO_LOGIN = Refusal(401, "Open the address that `accord inspect` printed in the terminal")
NOT_FOUND = Refusal(404, "Unknown address")

_ROWS = 500  # in one window
_FILTER_S = 0.3  # for a filter, before the rows that are known are returned


def list_routes(inspection: Inspection) -> Sequence[BaseRoute]:
    """Return the routes about messages, recordings and the agent."""
    api = _Api(inspection)
    return (
        Route("/api/inspection", api.inspection),
        Route("/api/recordings", api.recordings),
        Route("/api/messages", api.messages),
        Route("/api/messages/{n:int}", api.message),
        Route("/api/position/{n:int}", api.position),
        Route("/api/agent/restart", api.restart, methods=["POST"]),
    )


class _Api:
    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection
        self._sorted: tuple[tuple[View, str], SortedView] | None = None  # the last one

    async def inspection(self, _request: Request) -> Response:
        return json_response(self._inspection.describe())

    async def recordings(self, request: Request) -> Response:
        """Return what the page lists of the recordings of a folder."""
        if not isinstance(self._inspection, FolderInspection):
            raise ApiError(409, "This is not a folder of recordings")
        pattern = request.query_params.get("name", "")
        return json_response(await self._inspection.recordings(pattern))

    async def messages(self, request: Request) -> Response:
        """Return a window of the list: the rows from a position on, and the counts."""
        params = request.query_params
        recording = params.get("recording", "")
        messages = self._inspection.messages(recording)
        wanted = self._inspection.wanted(params, recording)
        view = messages.view(wanted)
        is_complete = await view.complete(_FILTER_S)
        shown = await self._in_order(messages, view, params)
        first = _number(params.get("from", "0"), "from")
        if first < 0:  # from the end
            first = max(len(view) + first, 0)
        count = min(_number(params.get("count", "100"), "count"), _ROWS)
        judged = self._inspection.judges.known(recording)
        return json_response(
            {
                "total": len(messages),
                "matched": len(view),
                "complete": messages.is_read and is_complete,
                "from": first,
                "rows": listed(
                    messages,
                    shown.rows(first, count),
                    judged,
                    self._inspection.fault_marks,
                    self._inspection.now if messages.is_read else None,
                    wanted.text,
                ),
            }
        )

    async def message(self, request: Request) -> Response:
        """Return one message: its row, the frame as text, and as a JSON value if it is one."""
        messages = self._inspection.messages(request.query_params.get("recording", ""))
        n = cast("int", request.path_params["n"])
        row, record = messages.row(n), messages.record(n)
        frame = record.frame
        try:
            value: Any = lenient_json.loads(frame) if frame else None
        except lenient_json.NotJson:
            value = None
        raw = frame.decode("utf-8", "replace")
        fault = self._inspection.fault_marks.get(n, "")
        answer = {
            "row": row_json(row),
            "raw": raw,
            "value": value,
            "reason": record.reason,
            "fault": fault,
        }
        return Response(lenient_json.dumps(answer), media_type="application/json")

    async def position(self, request: Request) -> Response:
        """Return the position of a message in the list; null if it is not selected."""
        params = request.query_params
        recording = params.get("recording", "")
        messages = self._inspection.messages(recording)
        view = messages.view(self._inspection.wanted(params, recording))
        is_complete = await view.complete(_FILTER_S)
        shown = await self._in_order(messages, view, params)
        position = shown.position(cast("int", request.path_params["n"]))
        return json_response({"position": position, "complete": is_complete})

    async def _in_order(
        self, messages: Messages, view: View, params: QueryParams
    ) -> View | SortedView:
        """Return a view in the order that an address names: `sort=-bytes`."""
        column = params.get("sort", "")
        if not column:
            return view
        if self._sorted is None or self._sorted[0] != (view, column):
            self._sorted = (view, column), SortedView(view, messages.index, column)
        found = self._sorted[1]
        await found.update()
        return found

    async def restart(self, request: Request) -> Response:
        """Start the agent again; `versions` are those of the protocol that it is offered."""
        inspection = self._inspection
        if not isinstance(inspection, AgentInspection):
            raise ApiError(409, "Only an agent that the page runs can be started again")
        versions = (await body_of(request)).get("versions")
        if versions is not None and not isinstance(versions, list):
            raise ApiError(400, "versions: expected a list")
        inspection.restart(cast("Any", versions))
        return json_response(inspection.process())


def _number(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ApiError(400, f"{name}: expected a whole number, got {text!r}") from None
