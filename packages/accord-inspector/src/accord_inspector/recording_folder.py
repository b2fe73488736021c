"""The recordings of a folder with very many of them: what is found, and what is shown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fnmatch import translate
from operator import attrgetter
from pathlib import Path

from msgspec import Struct

from accord_trace.reading import (
    NO_RECORDINGS,
    TraceError,
    all_names,
    folders_in,
    is_recording,
    names_in,
)


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
