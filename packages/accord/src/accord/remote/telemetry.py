"""Metrics and spans of OpenTelemetry about the connections and turns of a server.

`Telemetry` observes ACP connections; `RequestTelemetry` has the requests of `accord gateway`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from accord.remote.monitor import MonitoredTransport, Traffic, Turn
from accord.text.lenient_json import is_object
from accord.version import __version__

_NAME = "accord.remote"
_DIRECTION = "network.io.direction"
_TRANSPORT = "acp.transport"
_REASON = "acp.stop_reason"
_REASONS = {
    "end_turn",
    "max_tokens",
    "max_turn_requests",
    "refusal",
    "cancelled",
    "closed",
    "disconnected",
    "error",
    "unknown",
}
_METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"}
_propagator = TraceContextTextMapPropagator()


class Telemetry:
    """Reports to the providers of the process, or to those that are given.

    Metrics have the attribute `acp.transport`. There is a span for each connection and one for
    each turn; a turn whose prompt has a W3C `traceparent` in `_meta` continues that trace, and
    has a link to the connection. Neither has contents of messages, or tokens.
    """

    def __init__(
        self, meters: MeterProvider | None = None, tracers: TracerProvider | None = None
    ) -> None:
        meter = metrics.get_meter(_NAME, __version__, meters)
        self._tracer = trace.get_tracer(_NAME, __version__, tracers)
        self._open: set[MonitoredTransport] = set()
        self._spans: dict[MonitoredTransport, Span] = {}
        self._turns: dict[Turn, tuple[Span, float]] = {}
        # On connections that are closed, by transport and direction.
        self._passed: defaultdict[tuple[str, str], Traffic] = defaultdict(Traffic)
        self._connections = meter.create_up_down_counter(
            "acp.server.connections", "{connection}", "Open connections"
        )
        self._connection_s = meter.create_histogram(
            "acp.server.connection.duration", "s", "Duration of connections"
        )
        self._running = meter.create_up_down_counter("acp.server.turns", "{turn}", "Running turns")
        self._turn_s = meter.create_histogram("acp.server.turn.duration", "s", "Duration of turns")
        self._stall_s = meter.create_histogram(
            "acp.server.stall.duration", "s", "Time in which a client did not read enough"
        )
        meter.create_observable_counter(
            "acp.server.messages",
            [self._observer(lambda passed: passed.messages)],
            "{message}",
            "Messages",
        )
        meter.create_observable_counter(
            "acp.server.io",
            [self._observer(lambda passed: passed.bytes)],
            "By",
            "Bytes of messages",
        )
        meter.create_observable_gauge(
            "acp.server.queue", [self._observe_queues], "By", "Bytes that wait for clients"
        )

    # The observer of the monitor.

    def connection_opened(self, connection: MonitoredTransport) -> None:
        attributes = {_TRANSPORT: connection.kind}
        self._open.add(connection)
        self._connections.add(1, attributes)
        self._spans[connection] = self._tracer.start_span(
            "acp.connection",
            Context(),
            SpanKind.SERVER,
            {**attributes, "enduser.id": connection.principal},
        )

    def connection_closed(self, connection: MonitoredTransport) -> None:
        attributes = {_TRANSPORT: connection.kind}
        self._open.discard(connection)
        self._connections.add(-1, attributes)
        self._connection_s.record(connection.age_s, attributes)
        for direction, traffic in _directions(connection):
            passed = self._passed[connection.kind, direction]
            passed.messages += traffic.messages
            passed.bytes += traffic.bytes
        span = self._spans.pop(connection)
        span.set_attribute("acp.turns", connection.turns)
        span.set_attribute("acp.close_code", connection.close_code)
        span.set_attribute("acp.ended_by", connection.ended_by)
        if connection.ended_by == "agent":
            span.set_status(Status(StatusCode.ERROR, "the agent has ended"))
        span.end()

    def turn_started(self, connection: MonitoredTransport, turn: Turn) -> None:
        attributes = {_TRANSPORT: connection.kind}
        self._running.add(1, attributes)
        within = self._spans[connection]
        context = trace.set_span_in_context(within, Context())
        links: list[Link] = []
        if (parent := _parent_of(turn.meta)) is not None:
            context = parent
            links = [Link(within.get_span_context())]
        span = self._tracer.start_span("acp.turn", context, SpanKind.SERVER, attributes, links)
        self._turns[turn] = span, connection.age_s

    def turn_ended(self, connection: MonitoredTransport, turn: Turn) -> None:
        span, started_s = self._turns.pop(turn)
        attributes = {_TRANSPORT: connection.kind}
        self._running.add(-1, attributes)
        reason = _reason_of(turn)
        self._turn_s.record(connection.age_s - started_s, {**attributes, _REASON: reason})
        span.set_attribute(_REASON, turn.outcome)
        if reason in ("error", "disconnected"):
            span.set_status(Status(StatusCode.ERROR, turn.outcome))
        span.end()

    def stalled(self, connection: MonitoredTransport, duration_s: float) -> None:
        self._stall_s.record(duration_s, {_TRANSPORT: connection.kind})

    # What is read when metrics are collected.

    def _observer(
        self, amount: Callable[[Traffic], int]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            sums: defaultdict[tuple[str, str], int] = defaultdict(int)
            for key, traffic in list(self._passed.items()):
                sums[key] += amount(traffic)
            for connection in list(self._open):
                for direction, traffic in _directions(connection):
                    sums[connection.kind, direction] += amount(traffic)
            for (kind, direction), value in sums.items():
                yield Observation(value, {_TRANSPORT: kind, _DIRECTION: direction})

        return observe

    def _observe_queues(self, _options: CallbackOptions) -> Iterable[Observation]:
        sums: defaultdict[str, int] = defaultdict(int)
        for connection in list(self._open):
            sums[connection.kind] += connection.unsent_bytes
        for kind, value in sums.items():
            yield Observation(value, {_TRANSPORT: kind})


class RequestTelemetry:
    """Spans of requests of HTTP, and of the turns in them. They have no contents and no tokens.

    A request whose headers have a W3C trace context continues that trace.
    """

    def __init__(self, tracers: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer(_NAME, __version__, tracers)

    def request(self, method: str, route: str, principal: str, caller: Mapping[str, str]) -> Span:
        """Start the span of a request; `caller` is its trace context."""
        known = method if method in _METHODS else "_OTHER"
        attributes = {
            "http.request.method": known,
            "http.route": route,
            "enduser.id": principal,
        }
        context = _propagator.extract(caller, Context())
        name = f"{known if known == method else 'HTTP'} {route}"
        return self._tracer.start_span(name, context, SpanKind.SERVER, attributes)

    def end_request(self, span: Span, status: int) -> None:
        """End the span of a request, with the status of its response; 0 if it has none."""
        if status:
            span.set_attribute("http.response.status_code", status)
        if not 0 < status < 500:
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def turn(self, agent: str, request: Span | None) -> tuple[Span, dict[str, str]]:
        """Start the span of a turn; return it, and its trace context for the agent."""
        context = Context() if request is None else trace.set_span_in_context(request, Context())
        span = self._tracer.start_span("acp.turn", context, attributes={"acp.agent": agent})
        sent: dict[str, str] = {}
        _propagator.inject(sent, trace.set_span_in_context(span, Context()))
        return span, sent

    def end_turn(self, span: Span, outcome: str, error: str | None) -> None:
        """End the span of a turn, with its stop reason; `error` is the class of what failed."""
        span.set_attribute(_REASON, outcome)
        if error is not None:
            span.set_status(Status(StatusCode.ERROR, error))
        span.end()


def _directions(connection: MonitoredTransport) -> tuple[tuple[str, Traffic], ...]:
    return ("receive", connection.received), ("transmit", connection.sent)


def _parent_of(meta: Any) -> Context | None:
    """Return the trace that the `_meta` of a prompt names, None if it names none."""
    if not is_object(meta) or not isinstance(meta.get("traceparent"), str):
        return None
    carrier = {key: value for key, value in meta.items() if isinstance(value, str)}
    return _propagator.extract(carrier, Context())


def _reason_of(turn: Turn) -> str:
    """Return the stop reason as an attribute of metrics, which must not have many values."""
    reason = turn.outcome.partition(" ")[0]
    return reason if reason in _REASONS else "other"
