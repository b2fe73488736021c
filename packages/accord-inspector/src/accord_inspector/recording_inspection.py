"""Shows recordings: one file, or those of a folder, which may be very many."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from fnmatch import translate
from operator import attrgetter
from pathlib import Path
from time import monotonic
from typing import Any

from msgspec import Struct

from accord.text.excerpt import one_line
from accord.text.lenient_json import is_array, is_object
from accord_inspector.inspection import Inspection
from accord_terminal.conversation import ApiError
from accord_trace.reading import (
    NO_RECORDINGS,
    Trace,
    TraceError,
    all_names,
    folders_in,
    is_recording,
    names_in,
    trace_files,
)
from accord_trace.records import Record
from accord_trace.summary import update_of

# What the list of a folder says about each recording.

BEGINNING = 8_000_000  # bytes that are read of a recording: a line can be longer
_TITLE = 120  # characters


def summary_json(trace: Trace) -> dict[str, Any]:
    """Return the title, the agent, the time, the size and the turns of a recording.

    The title is that of the last session that has one, else the first prompt. If only the
    beginning of the recording is read, `complete` is false.
    """
    found: dict[str, Any] = {
        "name": trace.name,
        "size": sum(file.stat().st_size for file in trace.files),
        "title": "",
        "agent": "",
        "turns": 0,
        "sessions": 0,
        "complete": True,
    }
    sessions: set[str] = set()
    prompt = ""
    try:
        for record in trace:
            if record.session is not None:
                sessions.add(record.session)
            if record.method == "session/prompt" and record.type == "request":
                found["turns"] += 1
                prompt = prompt or _prompt_text(record)
            elif record.type == "response" and not found["agent"]:
                found["agent"] = _agent_name(record.value())
            elif (update := update_of(record)) is not None:
                found["title"] = _title(update) or found["title"]
    except (TraceError, OSError) as error:
        return {**found, "complete": not trace.was_cut, "problem": str(error)}
    found["complete"] = not trace.was_cut
    found["title"] = one_line(found["title"] or prompt, _TITLE)
    found["sessions"] = len(sessions)
    found["time"] = trace.header.t
    return found


def _agent_name(result: Any) -> str:
    """Return the agent's name and version if this is the result of `initialize`."""
    if not is_object(result) or "protocolVersion" not in result:
        return ""
    info = result.get("agentInfo") or result.get("info")
    if not is_object(info):
        return ""
    words = (info.get("title") or info.get("name"), info.get("version"))
    return one_line(" ".join(word for word in words if isinstance(word, str)), 80)


def _title(update: dict[str, Any]) -> str:
    title = update.get("title") if update.get("sessionUpdate") == "session_info_update" else None
    return title if isinstance(title, str) else ""


def _prompt_text(record: Record) -> str:
    params = record.value()
    blocks = params.get("prompt") if is_object(params) else None
    texts = [
        block["text"]
        for block in (blocks if is_array(blocks) else ())
        if is_object(block) and isinstance(block.get("text"), str)
    ]
    return " ".join(texts)


# The recordings of a folder with very many of them: what is found, and what is shown.


class FoundRecording(Struct, frozen=True):
    """A recording: `name`, or `folder/name`, and when its first file was changed."""

    name: str
    changed_ns: int


class RecordingFolder:
    """The recordings of a folder and of the folders in it.

    `find` reads the names, those of inner folders only if these were changed. It may run in a
    thread while others are called. Raise `TraceError` if there is no recording.
    """

    def __init__(self, path: Path) -> None:
        if next(all_names(path), None) is None:
            raise TraceError(NO_RECORDINGS.format(folder=path))
        self.path: Path = path
        self.found: list[FoundRecording] = []  # newest first as soon as all were found
        self.problems: list[str] = []
        self._inner: dict[str, tuple[int, list[FoundRecording]]] = {}  # by folder, with its time

    def find(self) -> Iterator[int]:
        """Find the recordings, those of the newest folders first.

        Yield after each folder how many were found. Before the first time has ended, `found` has
        them; after that, it has those of the last time. Raise `TraceError` if the folder cannot
        be read.
        """
        is_first = not self.found
        problems: list[str] = []
        found = list(_found(self.path, "", names_in(self.path)))
        if is_first:
            self.found, self.problems = found, problems
        yield len(found)
        inner: dict[str, tuple[int, list[FoundRecording]]] = {}
        folders = [(_changed_ns(item), item) for item in folders_in(self.path)]
        for changed_ns, item in sorted(folders, key=lambda pair: pair[0], reverse=True):
            known = self._inner.get(item.name)
            if known is None or known[0] != changed_ns:
                try:
                    names = names_in(Path(item.path))
                except TraceError as error:
                    problems.append(str(error))
                    continue
                known = changed_ns, list(_found(Path(item.path), f"{item.name}/", names))
            inner[item.name] = known
            found += known[1]
            yield len(found)
        found = sorted(found, key=attrgetter("name"))
        found.sort(key=attrgetter("changed_ns"), reverse=True)
        self.found, self.problems, self._inner = found, problems, inner

    def matching(self, pattern: str) -> list[FoundRecording]:
        """Return what was found whose name has this text or matches this pattern, in any case.

        A pattern without `/` may match the name with or without its folder.
        """
        found = self.found
        if not pattern:
            return found
        words = pattern if any(sign in pattern for sign in "*?[") else f"*{pattern}*"
        matches = re.compile(translate(words), re.IGNORECASE).match
        if "/" in pattern:
            return [one for one in found if matches(one.name)]
        return [one for one in found if matches(one.name) or matches(one.name.rpartition("/")[2])]

    def path_of(self, name: str) -> Path | None:
        """Return the path of a recording; None if the folder has none of this name."""
        parts = name.split("/")
        if len(parts) > 2 or not is_recording(name) or any(part in ("", "..") for part in parts):
            return None
        path = self.path.joinpath(*parts)
        return (
            path
            if len(path.parts) == len(self.path.parts) + len(parts) and path.is_file()
            else None
        )


def _found(folder: Path, prefix: str, names: list[str]) -> Iterator[FoundRecording]:
    for name in names:
        try:
            changed_ns = (folder / name).stat().st_mtime_ns
        except OSError:
            continue  # removed since
        yield FoundRecording(prefix + name, changed_ns)


def _changed_ns(folder: os.DirEntry[str]) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


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
