"""The trace of a caller: its request and its turn are spans in it, and the agent gets its context.

The context is that of the W3C, in the headers of a request and in `_meta` of `session/prompt`.
Spans need the package `opentelemetry-api`; without it, agents get the caller's context as it is.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from msgspec import Struct

from accord.remote.access import Principal, Scope, headers_of
from accord.remote.access_log import RequestLog

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from accord.errors import AccordError
    from accord.remote.telemetry import RequestTelemetry

# Versions after 00 may have more fields; ids of zeros are invalid.
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?P<more>-.{0,200})?",
    re.ASCII,
)
_LONGEST = {"tracestate": 512, "baggage": 8192}


class _Caller(Struct, frozen=True):
    """The request that is served now."""

    sent: Mapping[str, str]
    span: Span | None


_NOBODY = _Caller({}, None)
_caller: ContextVar[_Caller] = ContextVar("accord_gateway_caller", default=_NOBODY)


def trace_context(headers: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the trace context in the headers of a request; it is empty if one is malformed."""
    parents = headers.get("traceparent", ())
    parent = parents[0].strip() if len(parents) == 1 else ""
    valid = _TRACEPARENT.fullmatch(parent)
    if valid is None or (parent.startswith("00") and valid["more"]):
        return {}
    found = {"traceparent": parent}
    for name, longest in _LONGEST.items():
        if (text := ",".join(headers.get(name, ()))) and len(text) <= longest:
            found[name] = text
    return found


class TurnTrace:
    """The trace of a turn; `meta` is what the agent gets."""

    def __init__(self, telemetry: RequestTelemetry | None, agent: str) -> None:
        caller = _caller.get()
        self.meta: dict[str, str] | None = dict(caller.sent) or None
        self._telemetry = telemetry
        self._span: Span | None = None
        if telemetry is not None:
            self._span, own = telemetry.turn(agent, caller.span)
            self.meta = {**caller.sent, **own} or None

    def end(self, stop_reason: str | None, error: AccordError | None) -> None:
        """End the span. The text of the error, which may have contents, is not in it."""
        if self._telemetry is not None and self._span is not None:
            failed = None if error is None else type(error).__name__
            self._telemetry.end_turn(self._span, stop_reason or "error", failed)


class Tracing:
    """The spans of a gateway."""

    def __init__(self) -> None:
        self._telemetry = _telemetry()

    @contextmanager
    def request(
        self, scope: Scope, route: str, principal: Principal, log: RequestLog
    ) -> Generator[None]:
        """Let the turns that begin in the block be in the trace of a request."""
        sent = trace_context(headers_of(scope))
        telemetry, span = self._telemetry, None
        if telemetry is not None:
            span = telemetry.request(scope["method"], route, principal.shown, sent)
        token = _caller.set(_Caller(sent, span))
        try:
            yield
        finally:
            _caller.reset(token)
            if telemetry is not None and span is not None:
                telemetry.end_request(span, log.status)

    def turn(self, agent: str) -> TurnTrace:
        """Return the trace of a turn that begins, of the request that is served now."""
        return TurnTrace(self._telemetry, agent)


def _telemetry() -> RequestTelemetry | None:
    try:
        from accord.remote import telemetry
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise
        return None
    return telemetry.RequestTelemetry()
