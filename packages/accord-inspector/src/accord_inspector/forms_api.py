"""The part of the API that sends messages by hand."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from accord.text import lenient_json
from accord_inspector.forms import Version, check_params, form_of, methods
from accord_inspector.forms_facts import facts_of
from accord_inspector.handshake import spoken_version
from accord_inspector.inspection import Inspection
from accord_inspector.json_http import ApiError, body_of, json_response
from accord_inspector.live_inspection import LiveInspection
from accord_inspector.raw_text import bytes_of_text
from accord_inspector.sent_by_hand import INJECTED
from accord_trace.records import Direction

Kind: TypeAlias = Literal["request", "notification"]


def form_routes(inspection: Inspection) -> Sequence[BaseRoute]:
    """Return the routes of the view Send."""
    api = _Api(inspection)
    return (
        Route("/api/methods", api.methods),
        Route("/api/form", api.form),
        Route("/api/form/check", api.check, methods=["POST"]),
        Route("/api/send", api.send, methods=["POST"]),
        Route("/api/send/raw", api.send_raw, methods=["POST"]),
        Route("/api/send/from", api.send_from),
        Route("/api/send/forget", api.forget, methods=["POST"]),
    )


class _Api:
    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection
        self._ids = itertools.count(1)

    async def methods(self, request: Request) -> Response:
        """Return the methods of a version, by default of the one that the agent speaks."""
        given = request.query_params.get("version")
        version = _version(given or spoken_version(self._inspection.messages()))
        return json_response({"version": version, "methods": methods(version)})

    async def form(self, request: Request) -> Response:
        """Return the schema of a method's params, and params that work."""
        params = request.query_params
        facts = facts_of(self._inspection)
        try:
            form = form_of(
                _version(params.get("version")),
                params.get("method", ""),
                _direction(params.get("direction")),
                facts,
            )
        except LookupError as error:
            raise ApiError(404, str(error)) from None
        return json_response(form)

    async def check(self, request: Request) -> Response:
        """Return what the types of the protocol reject in params."""
        body = await body_of(request)
        try:
            problems = check_params(
                _version(body.get("version")),
                str(body.get("method")),
                _direction(body.get("direction")),
                body.get("params"),
            )
        except LookupError:
            problems = []  # an extension: nothing is known of its params
        return json_response({"problems": problems})

    async def send(self, request: Request) -> Response:
        """Send a request or a notification; return its number, and the id of a request."""
        body = await body_of(request)
        message: dict[str, Any] = {"jsonrpc": "2.0"}
        number = None
        if _kind(body.get("kind")) == "request":
            number = message["id"] = f"{INJECTED}{next(self._ids)}"
        message["method"] = body.get("method")
        if "params" in body:
            message["params"] = body["params"]
        n = self._agent.inject(_direction(body.get("direction")), [lenient_json.dumps(message)])
        self._agent.add_sent(body)
        return json_response({"n": n, "id": number})

    async def send_raw(self, request: Request) -> Response:
        """Send bytes, given as text; return the number of the first frame."""
        body = await body_of(request)
        raw = body.get("raw")
        if not isinstance(raw, str):
            raise ApiError(400, "raw: expected a text")
        try:
            data = bytes_of_text(raw, escapes=body.get("escapes") is True)
        except ValueError as error:
            raise ApiError(400, str(error)) from None
        direction = _direction(body.get("direction"))
        if body.get("newline", True) is True:
            n = self._agent.inject(direction, data.split(b"\n"))
        elif direction == "to_agent":
            n = self._agent.inject_bytes(data)
        else:
            raise ApiError(400, "Bytes without a newline can be sent to the agent only")
        if n is None and data.strip():
            raise ApiError(409, "The connection was cut: start the agent again")
        self._agent.add_sent(body)
        return json_response({"n": n, "id": _id_in(data)})

    async def send_from(self, request: Request) -> Response:
        """Return a message of the recording as it can be edited and sent."""
        params = request.query_params
        messages = self._inspection.messages(params.get("recording", ""))
        n = params.get("message", "")
        if not n.isdecimal():
            raise ApiError(400, f"message: expected a number, got {n!r}")
        row, record = messages.row(int(n)), messages.record(int(n))
        message: dict[str, Any] = {"direction": record.dir, "version": spoken_version(messages)}
        if row.kind in ("request", "notification"):
            message |= {"method": row.method, "kind": row.kind, "params": record.value()}
        else:
            message |= {"raw": record.frame.decode("utf-8", "backslashreplace")}
        return json_response({"message": message})

    async def forget(self, _request: Request) -> Response:
        """Forget what was sent by hand."""
        self._agent.forget_sent()
        return json_response({})

    @property
    def _agent(self) -> LiveInspection:
        if not isinstance(self._inspection, LiveInspection):
            raise ApiError(409, "Messages can be sent only to an agent that runs")
        return self._inspection


def _version(value: Any) -> Version:
    if str(value) not in ("1", "2"):
        raise ApiError(400, f"version: expected 1 or 2, got {value!r}")
    return cast("Version", int(value))


def _direction(value: Any) -> Direction:
    if value not in ("to_agent", "to_client"):
        raise ApiError(400, f"direction: expected to_agent or to_client, got {value!r}")
    return value


def _kind(value: Any) -> Kind:
    if value not in ("request", "notification"):
        raise ApiError(400, f"kind: expected request or notification, got {value!r}")
    return value


def _id_in(data: bytes) -> str | None:
    """Return the id of the request that was sent, if its response belongs to the page."""
    try:
        value = lenient_json.loads(data)
    except lenient_json.NotJson:
        return None
    found = value.get("id") if lenient_json.is_object(value) and "method" in value else None
    return found if isinstance(found, str) and found.startswith(INJECTED) else None
