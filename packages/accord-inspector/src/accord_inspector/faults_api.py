"""The part of the API that switches faults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from accord_inspector.faults import Fault, Faults
from accord_inspector.inspection import Inspection
from accord_inspector.json_http import ApiError, body_of, json_response
from accord_inspector.live_inspection import LiveInspection


def fault_routes(inspection: Inspection) -> Sequence[BaseRoute]:
    """Return the routes of the view Faults; each returns the state of all faults."""
    api = _FaultsApi(inspection)
    return (
        Route("/api/faults", api.show, methods=["GET"]),
        Route("/api/faults", api.add, methods=["POST"]),
        Route("/api/faults/off", api.all_off, methods=["POST"]),
        Route("/api/faults/{id:int}/{action}", api.act, methods=["POST"]),
    )


class _FaultsApi:
    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection

    async def show(self, _request: Request) -> Response:
        return json_response(self._faults.state())

    async def add(self, request: Request) -> Response:
        try:
            fault = msgspec.convert(await body_of(request), Fault)
            self._faults.add(fault)
        except ValueError as error:
            raise ApiError(400, str(error)) from None
        return json_response(self._faults.state())

    async def all_off(self, _request: Request) -> Response:
        self._faults.all_off()
        return json_response(self._faults.state())

    async def act(self, request: Request) -> Response:
        number = cast("int", request.path_params["id"])
        try:
            match request.path_params["action"]:
                case "on":
                    self._faults.switch(number, on=True)
                case "off":
                    self._faults.switch(number, on=False)
                case "remove":
                    self._faults.remove(number)
                case action:
                    raise ApiError(404, f"Unknown action {action!r}")
        except LookupError as error:
            raise ApiError(404, str(error)) from None
        return json_response(self._faults.state())

    @property
    def _faults(self) -> Faults:
        if not isinstance(self._inspection, LiveInspection):
            raise ApiError(409, "Faults need an agent that runs")
        return self._inspection.faults
