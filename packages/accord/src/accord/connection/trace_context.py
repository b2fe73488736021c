"""W3C trace context: copied from the `_meta` of a request to what its handler sends (R-EXT-02)."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from accord.text.lenient_json import is_object

TRACE_KEYS = ("traceparent", "tracestate", "baggage")

_trace: ContextVar[dict[str, Any] | None] = ContextVar("accord_trace", default=None)
# Returns the trace context of the request that is being handled; None if it has none.
trace: Callable[[], dict[str, Any] | None] = _trace.get


def current_trace() -> dict[str, Any]:
    """Return the trace context of the current request, or an empty dict."""
    return dict(_trace.get() or {})


def context_with_trace(meta: dict[str, Any]) -> Context | None:
    """Return a context with the trace of this `_meta`, or None if it has none."""
    found = {key: meta[key] for key in TRACE_KEYS if key in meta}
    if not found:
        return None
    context = copy_context()
    context.run(_trace.set, found)
    return context


def with_trace(params: Any) -> Any:
    """Return params with the trace of the current request, if it has one."""
    found = trace()
    if found is None:
        return params
    if isinstance(params, Struct) and hasattr(params, "meta"):
        meta: Any = getattr(params, "meta")  # noqa: B009  # not every wire type has it
        if meta is None or meta is UNSET:
            return replace(params, meta=dict(found))
        return replace(params, meta={**found, **meta})
    if is_object(params):
        own = params.get("_meta")
        return {**params, "_meta": {**found, **(own if is_object(own) else {})}}
    return params
