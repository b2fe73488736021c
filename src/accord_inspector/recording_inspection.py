"""Shows recordings: one file, or those of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accord.trace.reading import trace_files
from accord.trace.trace import open_traces
from accord_inspector.errors import ApiError
from accord_inspector.inspection import Inspection

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
        super().__init__()

    @property
    def title(self) -> str:
        return str(self._path)

    def names(self) -> list[str]:
        """Return the names of the recordings that the folder has now."""
        return [trace.name for trace in open_traces(self._path)]

    def path_of(self, recording: str) -> Path:
        names = self.names()
        if recording not in names:
            expected = ", ".join(names[:5])
            raise ApiError(404, f"Unknown recording {recording!r}: expected one of: {expected}")
        return self._path / recording

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "recordings": [{"name": name} for name in self.names()]}
