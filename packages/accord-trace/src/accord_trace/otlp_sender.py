"""Sends spans to a collector of OpenTelemetry, by OTLP over HTTP."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from accord.errors import AccordError
from accord.text.excerpt import one_line
from accord.version import __version__
from accord_trace.reading import Trace
from accord_trace.spans import (
    SCOPE,
    TRACEPARENT,
    Span,
    nanoseconds,
    resource_attributes,
    trace_spans,
)

_BATCH = 500
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class CollectorError(AccordError):
    """The collector did not accept the spans."""


def send_spans(trace: Trace, endpoint: str, *, content: bool = False) -> int:
    """Send the spans of a recording to a collector; return their number.

    `endpoint` is its URL; without a path, `/v1/traces` is added. Headers, certificates and the time
    limit are those of the environment (`OTEL_EXPORTER_OTLP_HEADERS`, …). Raise `CollectorError` if
    the collector does not accept them.
    """
    path = urlsplit(endpoint).path
    url = endpoint if path.strip("/") else f"{endpoint.rstrip('/')}/v1/traces"
    exporter = OTLPSpanExporter(endpoint=url)
    count = 0
    try:
        start, spans = trace_spans(trace, content=content)
        with _reports() as reports:
            while batch := [_readable(span, start) for span in islice(spans, _BATCH)]:
                if exporter.export(batch) is not SpanExportResult.SUCCESS:
                    why = f": {one_line(reports.why, 200)}" if reports.why else ""
                    raise CollectorError(f"The collector at {url} did not accept the spans{why}")
                count += len(batch)
    finally:
        exporter.shutdown()
    return count


class _Reports(logging.Handler):
    """Keeps why the exporter fails, which it only writes to its log."""

    why: str = ""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno < logging.ERROR and isinstance(record.args, tuple) and record.args:
            cause = record.args[0]  # it tries again
            self.why = "it cannot be reached" if isinstance(cause, OSError) else str(cause)
        elif not self.why:
            self.why = record.getMessage()


@contextmanager
def _reports() -> Generator[_Reports]:
    """Keep what the exporter writes to its log, and show nothing of it."""
    log = logging.getLogger("opentelemetry.exporter.otlp")
    reports, before = _Reports(), log.propagate
    log.propagate = False
    log.addHandler(reports)
    try:
        yield reports
    finally:
        log.removeHandler(reports)
        log.propagate = before


def _readable(span: Span, start: float) -> ReadableSpan:
    parent = _context(span.trace_id, span.parent_id) if span.parent_id else None
    return ReadableSpan(
        name=span.name,
        context=_context(span.trace_id, span.span_id),
        parent=parent,
        resource=Resource(resource_attributes()),
        attributes=span.attributes,
        events=[
            Event(event.name, event.attributes, nanoseconds(start, event.ts))
            for event in span.events
        ],
        links=list(_links(span)),
        kind=SpanKind.CLIENT if span.is_client else SpanKind.INTERNAL,
        instrumentation_scope=InstrumentationScope(SCOPE, __version__),
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
        start_time=nanoseconds(start, span.start),
        end_time=nanoseconds(start, span.end),
    )


def _links(span: Span) -> Iterator[Link]:
    if (found := TRACEPARENT.fullmatch(span.link)) is not None:
        yield Link(_context(found[1], found[2]))


def _context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=_SAMPLED)
