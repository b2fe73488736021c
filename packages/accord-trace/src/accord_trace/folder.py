"""The recordings of a folder, and of the folders in it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from accord_trace.importing import import_records
from accord_trace.packing import TraceError
from accord_trace.trace_file import part_path

NO_RECORDINGS = (
    "Expected recordings (*.acp.jsonl, .jsons, .ndjson) in {folder} or in its folders, found none"
)
_LOOKED_AT = 65536  # bytes at the beginning of a file
_LINES = 5  # of which one has a message, or the header
_NAME = re.compile(r"\.(jsonl(\.gz|\.zst)?|jsons|ndjson)$")


def is_recording(name: str) -> bool:
    """Return whether a file of this name is listed as a recording."""
    return _NAME.search(name) is not None


def _recordings_in(names: Iterable[str]) -> list[str]:
    """Return the names of recordings among those of the files in a folder, sorted.

    Later parts of a recording are omitted.
    """
    found = {name for name in names if is_recording(name)}
    parts: set[str] = set()
    for second in found:
        head, infix, ending = second.rpartition(".2.")
        first = Path(f"{head}.{ending}")
        if not infix or first.name not in found:
            continue
        number = 2
        while (part := part_path(first, number).name) in found:
            parts.add(part)
            number += 1
    return sorted(found - parts)


def _is_other_jsonl(item: os.DirEntry[str]) -> bool:
    """Return whether a file `.jsonl` has JSON but no messages, such as the tasks of a fleet."""
    if not item.name.endswith(".jsonl") or item.name.endswith(".acp.jsonl"):
        return False
    try:
        with Path(item.path).open("rb") as file:
            lines = file.read(_LOOKED_AT).split(b"\n")[:-1]
    except OSError:
        return False  # opening it explains why
    if not lines:
        return False
    return next(import_records(lines[:_LINES]), None) is None


def folders_in(folder: Path) -> list[os.DirEntry[str]]:
    """Return the folders in a folder, without hidden ones; raise `TraceError`."""
    try:
        with os.scandir(folder) as entries:
            return [item for item in entries if not item.name.startswith(".") and item.is_dir()]
    except OSError as error:
        raise _cannot_read(folder, error) from None


def names_in(folder: Path) -> list[str]:
    """Return the names of the recordings that are directly in a folder; raise `TraceError`."""
    try:
        with os.scandir(folder) as entries:
            return _recordings_in(
                item.name for item in entries if item.is_file() and not _is_other_jsonl(item)
            )
    except OSError as error:
        raise _cannot_read(folder, error) from None


def all_names(folder: Path, problems: list[str] | None = None) -> Iterator[str]:
    """Yield the names of a folder's recordings, then those of the folders in it as `folder/name`.

    Folders in it that cannot be read are skipped, and described in `problems`. Raise `TraceError`
    if the folder itself cannot be read.
    """
    yield from names_in(folder)
    for one in sorted(folders_in(folder), key=lambda item: item.name):
        try:
            yield from [f"{one.name}/{name}" for name in names_in(Path(one.path))]
        except TraceError as error:
            if problems is not None:
                problems.append(str(error))


def _cannot_read(folder: Path, error: OSError) -> TraceError:
    return TraceError(f"Cannot read the folder {folder}: {error.strerror or error}")
