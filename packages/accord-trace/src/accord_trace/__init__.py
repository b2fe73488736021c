"""Recordings of traffic: written while a program runs, and read by `accord trace`.

Frames of a connection go in, a file with one JSON object per line comes out; from the file come
records, messages that fit a filter, statistics, other formats, and a replayed agent or client.

- Writing: `recording`, which makes lines with `line_builder`, removes secrets with `redaction`, and
  writes a `trace_file`. `recorder_process` does it outside of the program that passes messages on.
- Reading: `reading` (a `Trace`), `records`, and `importing` for the formats of others.
- Large recordings: `message_index`, `columns`, `selection`, `search`.
- What comes of it: `summary`, `stats`, `spans`, `exports`, `diff`, and `replay`.

Read `records`, `recording` and `reading` first.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Type checkers read these imports, Python the table below; a test keeps them equal.
if TYPE_CHECKING:
    from accord_trace.message_index import MessageIndex as MessageIndex
    from accord_trace.message_index import MessageRow as MessageRow
    from accord_trace.reading import Trace as Trace
    from accord_trace.reading import TraceError as TraceError
    from accord_trace.reading import open_trace as open_trace
    from accord_trace.reading import open_traces as open_traces
    from accord_trace.recording import HopRecorder as HopRecorder
    from accord_trace.recording import Recording as Recording
    from accord_trace.recording import record as record
    from accord_trace.records import Header as Header
    from accord_trace.records import Record as Record
    from accord_trace.selection import Filter as Filter
    from accord_trace.selection import Selection as Selection
else:
    # Imported when first used: who records does not wait for what reads.
    _LAZY = {
        name: module
        for module, names in {
            "accord_trace.message_index": "MessageIndex MessageRow",
            "accord_trace.reading": "Trace TraceError open_trace open_traces",
            "accord_trace.recording": "HopRecorder Recording record",
            "accord_trace.records": "Header Record",
            "accord_trace.selection": "Filter Selection",
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
