"""Requests and turns of a gateway continue the trace of their callers."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from accord.remote import telemetry
from accord.remote.access import Access
from accord_bridges.gateways import gateway
from accord_bridges.gateways.tracing import trace_context
from accord_bridges.gateways.turns import GatewaySettings
from bridges.gateway_harness import listening, named

pytest.importorskip("mcp", reason="the library `mcp` is not installed")
trace: Any = pytest.importorskip("opentelemetry.sdk.trace", reason="no SDK of OpenTelemetry")

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import (  # noqa: E402
    InMemorySpanExporter,
)
from opentelemetry.trace import StatusCode  # noqa: E402

TOKEN = "the token of the test"
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
SECRET = "a-payload-of-this-test"


@asynccontextmanager
async def serving(state: Path) -> AsyncGenerator[httpx.AsyncClient, None]:
    settings = GatewaySettings(cwd=state / "work", idle_s=30)
    app = gateway({"caller": named("caller")}, Access(token=TOKEN), settings)
    async with listening(app) as (url, _):
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=30) as client:
            yield client


async def chat(client: httpx.AsyncClient, said: str, **headers: str) -> httpx.Response:
    body = {"model": "caller", "messages": [{"role": "user", "content": said}]}
    return await client.post("/v1/chat/completions", json=body, headers=headers)


def text(response: httpx.Response) -> str:
    return response.json()["choices"][0]["message"]["content"]


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter, tracers = InMemorySpanExporter(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    found = partial(telemetry.RequestTelemetry, tracers)
    monkeypatch.setattr(telemetry, "RequestTelemetry", found)
    return exporter


def named_spans(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


@pytest.mark.slow
@pytest.mark.timeout(60)
async def test_turn_is_a_span_in_the_trace_of_its_caller(
    state: Path, spans: InMemorySpanExporter
) -> None:
    async with serving(state) as client:
        sent = {"traceparent": PARENT, "tracestate": "a=b", "baggage": "k=v"}
        given = json.loads(text(await chat(client, "trace", **sent)))
        alone = json.loads(text(await chat(client, f"trace\nthink {SECRET}", traceparent="00-x")))
        assert (await chat(client, "x", Authorization="Bearer no")).status_code == 401
        assert (await client.get("/health")).status_code == 200
        assert (await chat(client, "die")).status_code == 502
    first, second, failed = named_spans(spans, "POST /v1/chat/completions")
    turn, own, lost = named_spans(spans, "acp.turn")
    assert len(spans.get_finished_spans()) == 6
    assert first.parent is not None
    assert turn.parent is not None
    assert f"{first.context.trace_id:032x}" == f"{turn.context.trace_id:032x}" == TRACE
    assert f"{first.parent.span_id:016x}" == SPAN
    assert turn.parent.span_id == first.context.span_id
    # The agent is asked in the span of the turn.
    span_id = f"{turn.context.span_id:016x}"
    assert given == {
        "traceparent": f"00-{TRACE}-{span_id}-01",
        "tracestate": "a=b",
        "baggage": "k=v",
    }
    assert dict(first.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": "/v1/chat/completions",
        "http.response.status_code": 200,
        "enduser.id": "token",
    }
    assert dict(turn.attributes or {}) == {"acp.agent": "caller", "acp.stop_reason": "end_turn"}
    # A malformed trace is ignored.
    assert second.parent is None
    assert own.parent is not None
    assert own.parent.span_id == second.context.span_id
    assert alone["traceparent"].split("-")[1] == f"{second.context.trace_id:032x}"
    for span in (failed, lost):
        assert span.status.status_code is StatusCode.ERROR
    for span in spans.get_finished_spans():
        assert not any(word in span.to_json() for word in (SECRET, TOKEN, "trace\\n"))


@pytest.mark.slow
@pytest.mark.timeout(60)
async def test_call_of_a_tool_of_mcp_is_in_the_trace_of_its_request(
    state: Path, spans: InMemorySpanExporter
) -> None:
    async with serving(state) as client:
        ask = {"name": "ask", "arguments": {"prompt": "trace"}}
        start = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        accepted = {"Accept": "application/json, text/event-stream"}
        for number, (method, params) in enumerate((("initialize", start), ("tools/call", ask))):
            body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            headers = accepted if number == 0 else {**accepted, "traceparent": PARENT}
            response = await client.post("/mcp", json=body, headers=headers)
            assert response.status_code == 200, response.text
            accepted["Mcp-Session-Id"] = response.headers.get("Mcp-Session-Id", "")
    assert TRACE in response.text
    (turn,) = named_spans(spans, "acp.turn")
    assert f"{turn.context.trace_id:032x}" == TRACE


@pytest.mark.slow
@pytest.mark.timeout(60)
async def test_agent_gets_the_trace_without_opentelemetry(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "accord.remote.telemetry")
    monkeypatch.delattr("accord.remote.telemetry")
    async with serving(state) as client:
        given = await chat(client, "trace", traceparent=PARENT, tracestate="a=b")
        assert json.loads(text(given)) == {"traceparent": PARENT, "tracestate": "a=b"}
        assert text(await chat(client, "trace")) == "{}"
    assert "accord.remote.telemetry" not in sys.modules


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ([PARENT], PARENT),
        ([f" {PARENT} "], PARENT),
        ([f"01-{TRACE}-{SPAN}-01-more"], f"01-{TRACE}-{SPAN}-01-more"),
        ([f"{PARENT}-more"], None),
        ([f"ff-{TRACE}-{SPAN}-01"], None),
        ([f"00-{'0' * 32}-{SPAN}-01"], None),
        ([f"00-{TRACE}-{'0' * 16}-01"], None),
        ([PARENT.upper()], None),
        ([PARENT, PARENT], None),
        ([f"01-{TRACE}-{SPAN}-01-{'x' * 300}"], None),
        ([], None),
    ],
)
def test_malformed_contexts_are_ignored(given: list[str], found: str | None) -> None:
    headers = {"traceparent": given, "tracestate": ["a=b", "c=d"], "baggage": ["x" * 9000]}
    expected = {} if found is None else {"traceparent": found, "tracestate": "a=b,c=d"}
    assert trace_context(headers) == expected
