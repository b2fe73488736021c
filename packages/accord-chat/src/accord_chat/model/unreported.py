"""Changes of files during a turn that the agent has made without reporting them."""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Collection, Mapping

from msgspec import Struct

from accord.types.tool_calls import Diff
from accord_chat.model.folder_files import FolderFiles

_FILE_BYTES = 512 * 1024
_TOTAL_BYTES = 32 * 1024 * 1024  # of all files of a folder; compressed in memory
_MAX_DIFFS = 50
# Of a link nothing is read, and a pipe must not block.
_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class _File(Struct, frozen=True):
    stamp: tuple[int, int, int, int]
    size: int = 0  # of the text
    packed: bytes | None = None  # the text; None: not UTF-8, or too large

    def text(self) -> str | None:
        return None if self.packed is None else zlib.decompress(self.packed).decode("utf-8")


class FolderState(Struct, frozen=True):
    """The files of a folder at one time, by their relative path."""

    files: Mapping[str, _File]


class UnreportedChanges(Struct, frozen=True):
    """Changed files: those whose old and new text is known, and the paths of others."""

    diffs: tuple[Diff, ...] = ()
    others: tuple[str, ...] = ()


def state_of(folder: FolderFiles, earlier: FolderState | None = None) -> FolderState:
    """Read the files of a folder that git does not ignore; those of `earlier` only if changed.

    Hidden folders are left out: agents keep what is their own in them.
    This reads the disk: at most 32 MB, and no file of more than 512 KB.
    """
    known: Mapping[str, _File] = {} if earlier is None else earlier.files
    found: dict[str, _File] = {}
    left = _TOTAL_BYTES
    for path in folder.refresh():
        if "/." in f"/{path}".rpartition("/")[0]:
            continue
        file = _read(os.fspath(folder.folder / path), known.get(path), left)
        if file is not None:
            found[path] = file
            left -= file.size
    return FolderState(found)


def changes_between(
    before: FolderState, after: FolderState, folder: str, reported: Collection[str]
) -> UnreportedChanges:
    """Return what has changed, except for the real paths in `reported`."""
    diffs: list[Diff] = []
    others: list[str] = []
    for path in sorted({*before.files, *after.files}):
        old, new = before.files.get(path), after.files.get(path)
        absolute = os.path.normpath(os.path.join(folder, path))  # noqa: PTH118  # as in `Roots`
        if old and new and old.stamp == new.stamp:
            continue
        if os.path.realpath(absolute) in reported:
            continue
        if new is None and os.path.lexists(absolute):
            continue  # git ignores it now
        old_text, new_text = (None if file is None else file.text() for file in (old, new))
        is_unknown = (old and old_text is None) or (new and new_text is None)
        if is_unknown or len(diffs) == _MAX_DIFFS:
            others.append(path)
        elif old_text != new_text:
            diffs.append(Diff(absolute, old_text, new_text))
    return UnreportedChanges(tuple(diffs), tuple(others))


def _read(path: str, known: _File | None, left: int) -> _File | None:
    """Return a file, `known` if it has not changed; None if there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    stamp = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    if known is not None and known.stamp == stamp:
        return known
    if status.st_size > min(_FILE_BYTES, left):
        return _File(stamp)
    try:
        fd = os.open(path, _OPEN)
        with open(fd, "rb") as file:  # noqa: PTH123  # it has a descriptor
            data = file.read(_FILE_BYTES + 1)
        data.decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return _File(stamp)
    return _File(stamp, len(data), zlib.compress(data, 1))
