"""The part of the API for the panels: capabilities, process, statistics."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from accord.text.lenient_json import is_object
from accord.text.secrets import redacted_argv
from accord_inspector.handshake import last_initialize
from accord_inspector.inspection import Inspection
from accord_inspector.json_http import ApiError, json_response
from accord_inspector.live_inspection import LiveInspection
from accord_inspector.messages import Messages
from accord_inspector.panels_capabilities import capability_panel
from accord_inspector.panels_resources import ResourceMeter
from accord_inspector.panels_statistics import RunningStatistics

_MEASURE_S = 1.0  # between two samples
_COUNT_S = 0.3  # for the statistics of one request


def routes(inspection: Inspection) -> Sequence[BaseRoute]:
    """Return the routes of the panels; the process is measured from now on."""
    api = _Api(inspection)
    return (
        Route("/api/capabilities", api.capabilities),
        Route("/api/process", api.process),
        Route("/api/statistics", api.statistics),
    )


class _Api:
    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection
        self._statistics: dict[Messages, RunningStatistics] = {}
        self._meter = ResourceMeter()
        if isinstance(inspection, LiveInspection):
            inspection.spawn(self._measure(inspection))

    async def capabilities(self, request: Request) -> Response:
        """Return what both sides sent in the last `initialize`."""
        messages = self._inspection.messages(request.query_params.get("recording", ""))
        n = last_initialize(messages)
        sides: list[dict[str, Any]] = []
        if n is not None:
            row = messages.row(n)
            sent = messages.record(n).value()
            received = None if row.pair is None else messages.record(row.pair).value()
            version = sent.get("protocolVersion") if is_object(sent) else None
            if is_object(received):
                version = received.get("protocolVersion")
            chosen = version if isinstance(version, int) else 1
            if is_object(sent):
                sides.append({**_panel("client", sent, chosen), "n": n})
            if is_object(received):
                sides.append({**_panel("agent", received, chosen), "n": row.pair})
        return json_response({"sides": sides})

    async def process(self, _request: Request) -> Response:
        """Return the state of the agent's process, what was measured, and its stderr."""
        inspection = self._inspection
        if not isinstance(inspection, LiveInspection):
            raise ApiError(409, "A recording has no process")
        return json_response(
            {
                **inspection.process(),
                "command": redacted_argv(inspection.command),
                "environment": self._meter.environment,
                "samples": list(self._meter.samples),
                "stderr": list(inspection.stderr),
            }
        )

    async def statistics(self, request: Request) -> Response:
        """Return the statistics, of what could be counted in a short time."""
        messages = self._inspection.messages(request.query_params.get("recording", ""))
        statistics = self._statistics.get(messages)
        if statistics is None:
            statistics = RunningStatistics(messages.record, lambda: len(messages))
            self._statistics[messages] = statistics
        await statistics.complete(_COUNT_S)
        return json_response(statistics.result())

    async def _measure(self, inspection: LiveInspection) -> None:
        """Measure the process while it runs."""
        watched: int | None = None
        while True:
            if inspection.pid is not None and inspection.pid != watched:
                watched = inspection.pid
                self._meter.watch(watched)
            sample = await asyncio.to_thread(
                self._meter.measure, round(inspection.recording.now(), 3)
            )
            if sample is not None:
                inspection.hub.push("resources", sample)
            await asyncio.sleep(_MEASURE_S)


def _panel(side: Any, sent: dict[str, Any], version: int) -> dict[str, Any]:
    return msgspec.to_builtins(capability_panel(side, sent, version), enc_hook=str)
