"""Spans as JSON of OTLP, the protocol of OpenTelemetry."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from accord.version import __version__
from accord_trace.spans import Attribute, Event, Span, spans_of
from accord_trace.trace import Trace

SCOPE = "accord_trace"
TRACEPARENT: re.Pattern[str] = re.compile(
    r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})"
)
_BATCH = 500  # spans in a line
_INTERNAL, _CLIENT, _ERROR = 1, 3, 2


def trace_spans(trace: Trace, *, content: bool = False) -> tuple[float, Iterator[Span]]:
    """Return the time of second 0, in seconds since 1970, and the spans; see `spans_of`.

    A recording without a time began when its file was changed last. Raise `TraceError`.
    """
    records = iter(trace)
    first = next(records, None)
    try:
        start = datetime.fromisoformat(trace.header.t).timestamp()
    except ValueError:
        start = trace.files[0].stat().st_mtime
    name = f"{trace.header.t} {trace.header.program} {trace.name}"
    return start, spans_of(_chain(first, records), name, content=content)


def otlp_lines(trace: Trace, *, content: bool = False) -> Iterator[bytes]:
    """Yield lines of OTLP's JSON, each with up to 500 spans, as collectors read them."""
    start, spans = trace_spans(trace, content=content)
    batch: list[dict[str, Any]] = []
    for span in spans:
        batch.append(_span(span, start))
        if len(batch) == _BATCH:
            yield _line(batch)
            batch = []
    if batch:
        yield _line(batch)


def resource_attributes() -> dict[str, Attribute]:
    """Return what the spans have in common."""
    return {"service.name": "accord", "service.version": __version__}


def nanoseconds(start: float, ts: float) -> int:
    """Return the time of second `ts` in nanoseconds since 1970."""
    return round(start * 1e6) * 1000 + round(ts * 1e6) * 1000


def _chain(first: Any, rest: Iterable[Any]) -> Iterator[Any]:
    if first is not None:
        yield first
        yield from rest


def _line(spans: list[dict[str, Any]]) -> bytes:
    scope = {"scope": {"name": SCOPE, "version": __version__}, "spans": spans}
    resource = {"attributes": _attributes(resource_attributes())}
    value = {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}
    return msgspec.json.encode(value) + b"\n"


def _span(span: Span, start: float) -> dict[str, Any]:
    value: dict[str, Any] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": _clean(span.name),
        "kind": _CLIENT if span.is_client else _INTERNAL,
        "startTimeUnixNano": str(nanoseconds(start, span.start)),
        "endTimeUnixNano": str(nanoseconds(start, span.end)),
        "attributes": _attributes(span.attributes),
    }
    if span.parent_id:
        value["parentSpanId"] = span.parent_id
    if span.events:
        value["events"] = [_event(event, start) for event in span.events]
    if (found := TRACEPARENT.fullmatch(span.link)) is not None:
        value["links"] = [{"traceId": found[1], "spanId": found[2]}]
    if span.error:
        value["status"] = {"code": _ERROR, "message": _clean(span.error)}
    return value


def _event(event: Event, start: float) -> dict[str, Any]:
    return {
        "name": _clean(event.name),
        "timeUnixNano": str(nanoseconds(start, event.ts)),
        "attributes": _attributes(event.attributes),
    }


def _attributes(values: dict[str, Attribute]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Attribute) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": _clean(value)}
        case _:
            return {"arrayValue": {"values": [_value(item) for item in value]}}


def _clean(text: str) -> str:
    """Return a text without lone surrogates."""
    return text.encode("utf-8", "replace").decode()
