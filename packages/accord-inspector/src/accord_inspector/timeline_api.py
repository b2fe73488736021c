"""The JSON API of the timeline: names, broken rules, explanations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec
from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from accord.text import lenient_json
from accord.text.lenient_json import is_object
from accord_inspector.broken_rule import BrokenRule
from accord_inspector.copies import Origin, copies
from accord_inspector.explain import explain, rule_text
from accord_inspector.inspection import Inspection
from accord_inspector.messages import Messages
from accord_trace.records import Record
from accord_trace.selection import Filter

_FILTER_S = 0.3
_MAX_NAMES = 500

_encode = msgspec.json.Encoder(enc_hook=str).encode


def timeline_routes(inspection: Inspection) -> Sequence[BaseRoute]:
    """Return the routes of the timeline."""
    api = _Api(inspection)
    return (
        Route("/api/names", api.names),
        Route("/api/rules", api.rules),
        Route("/api/next/{n:int}", api.next),
        Route("/api/explanation/{n:int}", api.explanation),
        Route("/api/copies/{n:int}", api.copies),
    )


class _Api:
    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection
        # By recording: how many names there are, and the names. To count them takes time.
        self._names: dict[Messages, tuple[tuple[int, int], dict[str, list[str]]]] = {}

    async def names(self, request: Request) -> Response:
        """Return the names of components, methods and sessions; those with most messages first."""
        messages = self._messages(request)
        index = messages.index
        known = (len(index.columns.method_names), len(index.columns.session_names))
        names = self._names.get(messages)
        if names is None or names[0] != known:
            found = {"methods": index.methods(), "sessions": index.sessions()}
            by_count = {
                kind: sorted(filter(None, counts), key=lambda name: (-counts[name], name))
                for kind, counts in found.items()
            }
            names = self._names[messages] = (
                known,
                {kind: of[:_MAX_NAMES] for kind, of in by_count.items()},
            )
        return _json({"components": index.components(), **names[1]})

    async def rules(self, request: Request) -> Response:
        """Return the broken rules, and how many messages were judged."""
        messages = self._messages(request)
        judged = self._inspection.judges.of(_recording(request))
        rules = [
            {"id": rule, "count": count, "text": rule_text(rule)}
            for rule, count in judged.counts.most_common()
        ]
        return _json(
            {
                "judged": judged.judged,
                "total": len(messages),
                "finished": judged.is_finished or messages.grows,
                "found": judged.counts.total(),
                "problem": judged.problem,
                "rules": rules,
            }
        )

    async def next(self, request: Request) -> Response:
        """Return the number of the next selected message from a number on; null without one."""
        messages = self._messages(request)
        view = messages.view(self._inspection.wanted(request.query_params, _recording(request)))
        await view.complete(_FILTER_S)
        position = view.position_from(cast("int", request.path_params["n"]))
        return _json({"n": None if position is None else view.number(position)})

    async def explanation(self, request: Request) -> Response:
        """Return what the fields of a message mean, and the rules that it breaks."""
        messages = self._messages(request)
        n = cast("int", request.path_params["n"])
        row, record = messages.row(n), messages.record(n)
        version = await _version_at(messages, n)
        found = explain(
            row.kind, row.method, _value(record), version=version, direction=row.direction
        )
        broken = self._inspection.judges.of(_recording(request)).broken(n)
        return _json(
            {
                **msgspec.to_builtins(found),
                "broken": [_broken(one, version) for one in broken],
                "total": len(messages),
                "canSend": self._inspection.is_live and row.kind in ("request", "notification"),
            }
        )

    async def copies(self, request: Request) -> Response:
        """Return a message as JSON, as a Python program, and as a shell command."""
        messages = self._messages(request)
        n = cast("int", request.path_params["n"])
        row, record = messages.row(n), messages.record(n)
        first = messages.view(Filter(methods=("initialize",), kinds=("request",)))
        await first.complete(_FILTER_S)
        earlier = [one.number for one in first.rows(0, len(first)) if one.conn == row.conn]
        command = self._inspection.describe().get("command") or messages.index.header.argv
        origin = Origin(
            number=n + 1,
            command=command,
            version=await _version_at(messages, n),
            initialize=messages.record(earlier[0]).frame if earlier and earlier[0] <= n else b"",
        )
        return _json(copies(record, origin))

    def _messages(self, request: Request) -> Messages:
        return self._inspection.messages(_recording(request))


def _recording(request: Request) -> str:
    return request.query_params.get("recording", "")


def _json(value: Any) -> Response:
    return Response(_encode(value), media_type="application/json")


def _broken(one: BrokenRule, version: int | None) -> dict[str, Any]:
    text = rule_text(one.rule, version)
    return {**msgspec.to_builtins(one), "text": msgspec.to_builtins(text)}


def _value(record: Record) -> Any:
    if record.type == "end":
        return None
    try:
        return lenient_json.loads(record.frame)
    except lenient_json.NotJson:
        return None


async def _version_at(messages: Messages, n: int) -> int | None:
    """Return the version that the connection of a message had agreed on; None if it is unknown."""
    conn = messages.row(n).conn
    view = messages.view(Filter(methods=("initialize",), kinds=("response",)))
    await view.complete(_FILTER_S)
    version: int | None = None
    for row in view.rows(0, len(view)):
        if row.number > n and version is not None:
            break
        if row.conn == conn:
            found = _agreed(messages.record(row.number))
            version = found if found is not None else version
    return version


def _agreed(record: Record) -> int | None:
    if record.is_error or record.payload is UNSET:
        return None
    value = record.value()
    version = value.get("protocolVersion") if is_object(value) else None
    return version if version in (1, 2) else None
