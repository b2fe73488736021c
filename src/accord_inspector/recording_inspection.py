"""Shows recordings: one file, or those of a folder."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from accord.trace.reading import TraceError, trace_files
from accord.trace.trace import open_trace, open_traces
from accord_inspector.errors import ApiError
from accord_inspector.inspection import Inspection
from accord_inspector.recording_summary import summary_json

__all__ = ("FolderInspection", "RecordingInspection")


class RecordingInspection(Inspection):
    """Shows one recording. Raise `TraceError` if it cannot be read."""

    kind = "recording"

    def __init__(self, path: Path) -> None:
        trace_files(path)
        self._path = path
        super().__init__()

    @property
    def title(self) -> str:
        return self._path.name

    async def start(self) -> None:
        """Begin to read before a page asks for it."""
        self.messages()

    def path_of(self, recording: str) -> Path:
        if recording not in ("", self._path.name):
            raise ApiError(404, f"Unknown recording {recording!r}: expected {self._path.name}")
        return self._path


class FolderInspection(Inspection):
    """Shows the recordings of a folder. Raise `TraceError` if it has none."""

    kind = "folder"

    def __init__(self, path: Path) -> None:
        open_traces(path)
        self._path = path
        self._summaries: dict[str, tuple[object, dict[str, Any]]] = {}
        super().__init__()

    @property
    def title(self) -> str:
        return str(self._path)

    def names(self) -> list[str]:
        """Return the names of the recordings that the folder has now."""
        try:
            return [trace.name for trace in open_traces(self._path)]
        except TraceError as error:
            raise ApiError(404, str(error)) from None

    async def summaries(self) -> list[dict[str, Any]]:
        """Return what the page lists of each recording; unchanged files are read once."""
        found: list[dict[str, Any]] = []
        for name in self.names():
            trace = open_trace(self._path / name)
            try:
                status = [file.stat() for file in trace.files]
            except OSError:
                continue  # removed since
            key = tuple((one.st_size, one.st_mtime_ns) for one in status)
            known = self._summaries.get(name)
            if known is None or known[0] != key:
                known = key, await asyncio.to_thread(summary_json, trace)
                self._summaries[name] = known
            found.append(known[1])
        return found

    def path_of(self, recording: str) -> Path:
        names = self.names()
        if recording not in names:
            expected = ", ".join(names[:5])
            raise ApiError(404, f"Unknown recording {recording!r}: expected one of: {expected}")
        return self._path / recording
