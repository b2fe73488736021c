"""Shows recordings: one file, or those of a folder."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import monotonic
from typing import Any

from accord_inspector.inspection import Inspection
from accord_inspector.json_http import ApiError
from accord_inspector.recording_folder import RecordingFolder
from accord_inspector.recording_summary import BEGINNING, summary_json
from accord_trace.reading import Trace, TraceError, trace_files

_ROWS = 500  # that are listed
_PROBLEMS = 5  # that are listed
_FIND_S = 0.3  # for names, before the list is returned
_READ_S = 0.5  # for what is in the recordings
_PAUSE = 10  # times the time that the names took, until they are read again


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
    """Shows the recordings of a folder and of the folders in it. Raise `TraceError` without any."""

    kind = "folder"

    def __init__(self, path: Path) -> None:
        self._folder = RecordingFolder(path)
        self._summaries: dict[str, tuple[object, dict[str, Any]]] = {}
        self._finding: asyncio.Task[None] | None = None
        self._find_again = 0.0  # from when on the names are read again
        self._problem = ""
        self._is_stopped = False
        super().__init__()

    @property
    def title(self) -> str:
        return str(self._folder.path)

    async def start(self) -> None:
        """Begin to find recordings before a page asks for them."""
        self._find()

    async def stop(self) -> None:
        """Do not wait for a folder with very many recordings."""
        self._is_stopped = True

    async def recordings(self, pattern: str) -> dict[str, Any]:
        """Return what the page lists: the newest recordings whose names match a pattern.

        It takes a second at most. If `complete` is false, more will be known later. Recordings
        that were not read yet are `pending`; unchanged ones are read once.
        """
        self._find()
        if self._finding is not None:
            await asyncio.wait((self._finding,), timeout=_FIND_S)
        if self._problem:
            raise ApiError(404, self._problem)
        matching = self._folder.matching(pattern)
        until = monotonic() + _READ_S
        rows = [row for one in matching[:_ROWS] if (row := await self._row(one.name, until))]
        is_found = self._finding is None or self._finding.done()
        return {
            "recordings": rows,
            "matched": len(matching),
            "total": len(self._folder.found),
            "found": is_found,
            "complete": is_found and not any("pending" in row for row in rows),
            "problems": self._folder.problems[:_PROBLEMS],
        }

    def path_of(self, recording: str) -> Path:
        path = self._folder.path_of(recording)
        if path is None:
            raise ApiError(404, f"Expected a recording in {self.title}, got {recording!r}")
        return path

    async def _row(self, name: str, until: float) -> dict[str, Any] | None:
        """Return what is listed of a recording; None if it was removed."""
        path = self._folder.path_of(name)
        if path is None:
            return None
        trace = Trace(trace_files(path), name=name, beginning=BEGINNING)
        try:
            status = [file.stat() for file in trace.files]
        except OSError:
            return None
        key = tuple((one.st_size, one.st_mtime_ns) for one in status)
        known = self._summaries.get(name)
        if known is None or known[0] != key:
            if monotonic() > until:
                return {"name": name, "size": sum(one.st_size for one in status), "pending": True}
            known = key, await asyncio.to_thread(summary_json, trace)
            self._summaries[name] = known
        return known[1]

    def _find(self) -> None:
        """Read the names, unless this is done already, or was done a moment ago."""
        is_finding = self._finding is not None and not self._finding.done()
        if not is_finding and monotonic() >= self._find_again:
            self._finding = self.spawn(self._find_all())

    async def _find_all(self) -> None:
        began = monotonic()
        try:
            await asyncio.to_thread(self._run_find)
            self._problem = ""
        except TraceError as error:
            self._problem = str(error)
        now = monotonic()
        self._find_again = now + _PAUSE * (now - began)

    def _run_find(self) -> None:
        for _ in self._folder.find():
            if self._is_stopped:
                return
