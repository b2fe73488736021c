"""What OpenTelemetry receives about connections and turns, with the SDK's own exporters."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Generator
from functools import partial
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import accord
from accord import Agent, Turn
from accord.errors import InvalidParams
from accord.remote import telemetry
from accord.version import ProtocolVersion
from event_loop import Changing, poll_until
from remote.test_websocket import TOKEN, raw, serving

SECRET = "a-payload-of-this-test"


class Echo(Agent):
    async def prompt(self, turn: Turn) -> None:
        if turn.text == "fail":
            raise InvalidParams("failed")
        await turn.say(turn.text)


class Spans(InMemorySpanExporter, Changing):
    def __init__(self) -> None:
        InMemorySpanExporter.__init__(self)
        Changing.__init__(self)

    def export(self, spans: Any) -> Any:
        result = super().export(spans)
        self.changed.set()
        return result


class Collected:
    """The metrics and spans of one server."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self._exporter = Spans()
        self.meters = MeterProvider([self._reader])
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))

    def units(self) -> dict[str, str]:
        """Return the unit of each metric that has been measured."""
        data = self._reader.get_metrics_data()
        return {
            metric.name: metric.unit or ""
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def points(self, name: str) -> list[tuple[dict[str, Any], Any]]:
        """Return the attributes and the value, or count, of each point of a metric."""
        data = self._reader.get_metrics_data()
        return [
            (dict(point.attributes or {}), getattr(point, "value", getattr(point, "count", None)))
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    async def until_closed(self) -> None:
        await self._exporter.until(lambda: self.spans("acp.connection"))


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Generator[Collected]:
    found = Collected()
    reporting = partial(telemetry.Telemetry, found.meters, found.tracers)
    monkeypatch.setattr(telemetry, "Telemetry", reporting)
    yield found
    found.meters.shutdown()
    found.tracers.shutdown()


@pytest.mark.parametrize(("scheme", "version"), [("ws", 1), ("http", 2)])
async def test_connection_and_turn_are_counted_and_traced(
    collected: Collected, scheme: str, version: ProtocolVersion
) -> None:
    transport = {"acp.transport": "websocket" if scheme == "ws" else "http"}
    async with serving(Echo) as url:
        async with accord.connect(
            url.replace("ws", scheme, 1), token=TOKEN, versions=(version,)
        ) as client:
            session = await client.new_session("/")
            assert collected.points("acp.server.connections") == [(transport, 1)]
            async with session.prompt(SECRET) as turn:
                await turn.wait()
        await collected.until_closed()
    assert collected.points("acp.server.connections") == [(transport, 0)]
    assert collected.points("acp.server.turns") == [(transport, 0)]
    units = collected.units()
    assert {units[f"acp.server.{what}.duration"] for what in ("connection", "turn")} == {"s"}
    assert units["acp.server.io"] == "By"
    ended = {**transport, "acp.stop_reason": "end_turn"}
    assert collected.points("acp.server.turn.duration") == [(ended, 1)]
    assert collected.points("acp.server.connection.duration") == [(transport, 1)]
    for name, least in (("acp.server.messages", 3), ("acp.server.io", 300)):
        directions = {
            attributes["network.io.direction"]: value
            for attributes, value in collected.points(name)
        }
        assert directions.keys() == {"receive", "transmit"}
        assert min(directions.values()) >= least
    (connection,), (turn_span,) = collected.spans("acp.connection"), collected.spans("acp.turn")
    assert turn_span.parent is not None
    assert turn_span.parent.span_id == connection.context.span_id
    assert dict(turn_span.attributes or {}) == ended
    assert (connection.attributes or {})["enduser.id"] == "token"
    for span in (connection, turn_span):
        for secret in (SECRET, TOKEN):
            assert secret not in span.to_json()


async def test_turn_continues_the_trace_of_the_client(collected: Collected) -> None:
    trace_id, span_id = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    async with serving(Echo) as url, raw(url) as connection:
        session = await _session(connection)
        params = {
            "sessionId": session,
            "prompt": [{"type": "text", "text": "x"}],
            "_meta": {"traceparent": f"00-{trace_id}-{span_id}-01"},
        }
        await _call(connection, 3, "session/prompt", params)
    await collected.until_closed()
    (turn,), (served,) = collected.spans("acp.turn"), collected.spans("acp.connection")
    assert turn.parent is not None
    assert f"{turn.context.trace_id:032x}" == trace_id
    assert f"{turn.parent.span_id:016x}" == span_id
    assert [link.context.span_id for link in turn.links] == [served.context.span_id]


async def test_turn_that_fails_and_turn_that_is_lost_are_errors(collected: Collected) -> None:
    class Waiting(Echo):
        async def prompt(self, turn: Turn) -> None:
            await super().prompt(turn)
            await asyncio.Event().wait()

    async with serving(Waiting) as url, raw(url) as connection:
        session = await _session(connection)
        for number, text in ((3, "fail"), (4, "wait")):
            params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
            if number == 3:
                await _call(connection, number, "session/prompt", params)
            else:
                await connection.send(_request(number, "session/prompt", params))
                await connection.recv()
        await connection.close()
        await collected.until_closed()
    outcomes = {
        (span.attributes or {})["acp.stop_reason"]: span.status.status_code
        for span in collected.spans("acp.turn")
    }
    assert outcomes == {"error -32602": StatusCode.ERROR, "disconnected": StatusCode.ERROR}
    assert collected.points("acp.server.turns") == [({"acp.transport": "websocket"}, 0)]


async def test_reader_that_is_late_is_a_stall(collected: Collected) -> None:
    class Flood(Agent):
        async def prompt(self, turn: Turn) -> None:
            for _ in range(200):
                await turn.say("x" * 50_000)

    async with serving(Flood) as url, raw(url, max_queue=1) as connection:
        session = await _session(connection)
        params = {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}
        await connection.send(_request(3, "session/prompt", params))
        await poll_until(lambda: sum(n for _, n in collected.points("acp.server.queue")))
        assert collected.points("acp.server.stall.duration") == []
        while json.loads(await connection.recv()).get("id") != 3:
            pass
    await collected.until_closed()
    assert collected.units()["acp.server.stall.duration"] == "s"
    ((_, stalls),) = collected.points("acp.server.stall.duration")
    assert stalls >= 1


async def test_server_works_without_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "accord.remote.telemetry")
    monkeypatch.delattr("accord.remote.telemetry")
    async with serving(Echo) as url, accord.connect(url, token=TOKEN) as client:
        assert await client.new_session("/")
    assert "accord.remote.telemetry" not in sys.modules


async def _session(connection: Any) -> str:
    await _call(connection, 1, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    answer = await _call(connection, 2, "session/new", {"cwd": "/", "mcpServers": []})
    return answer["result"]["sessionId"]


async def _call(connection: Any, number: int, method: str, params: Any) -> Any:
    await connection.send(_request(number, method, params))
    async with asyncio.timeout(20):
        while (answer := json.loads(await connection.recv())).get("id") != number:
            pass
    return answer


def _request(number: int, method: str, params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
