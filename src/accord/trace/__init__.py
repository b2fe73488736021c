"""Recordings of traffic: written while a program runs, and read by `accord trace`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Type checkers read these imports, Python the table below; a test keeps them equal.
if TYPE_CHECKING:
    from accord.trace.filtering import Filter as Filter
    from accord.trace.message_index import MessageIndex as MessageIndex
    from accord.trace.message_index import MessageRow as MessageRow
    from accord.trace.reading import TraceError as TraceError
    from accord.trace.recording import HopRecorder as HopRecorder
    from accord.trace.recording import Recording as Recording
    from accord.trace.recording import record as record
    from accord.trace.records import Header as Header
    from accord.trace.records import Record as Record
    from accord.trace.selection import Selection as Selection
    from accord.trace.trace import Trace as Trace
    from accord.trace.trace import open_trace as open_trace
    from accord.trace.trace import open_traces as open_traces
else:
    # Imported when first used: who records does not wait for what reads.
    _LAZY = {
        name: module
        for module, names in {
            "accord.trace.filtering": "Filter",
            "accord.trace.message_index": "MessageIndex MessageRow",
            "accord.trace.reading": "TraceError",
            "accord.trace.recording": "HopRecorder Recording record",
            "accord.trace.records": "Header Record",
            "accord.trace.selection": "Selection",
            "accord.trace.trace": "Trace open_trace open_traces",
        }.items()
        for name in names.split()
    }
    __all__ = tuple(_LAZY)

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
