"""Recordings of traffic: written while a program runs, and read by `accord trace`."""

from __future__ import annotations

from accord.trace.filtering import Filter
from accord.trace.message_index import MessageIndex, MessageRow
from accord.trace.reading import TraceError
from accord.trace.recording import HopRecorder, Recording, record
from accord.trace.records import Header, Record
from accord.trace.selection import Selection
from accord.trace.trace import Trace, open_trace, open_traces

__all__ = (
    "Filter",
    "Header",
    "HopRecorder",
    "MessageIndex",
    "MessageRow",
    "Record",
    "Recording",
    "Selection",
    "Trace",
    "TraceError",
    "open_trace",
    "open_traces",
    "record",
)
