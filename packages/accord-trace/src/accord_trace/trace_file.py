"""The files of a recording: private, never buffered, optionally compressed and split by size."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

from accord_trace.packing import Packer, packer_of

_FLAGS = (
    os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)


def part_path(path: Path, part: int) -> Path:
    """Return the path of a part; the second one of `r.acp.jsonl` is `r.2.acp.jsonl`."""
    return path if part == 1 else _with_infix(path, str(part))


def _with_infix(path: Path, infix: str) -> Path:
    for ending in (
        ".acp.jsonl.gz",
        ".acp.jsonl.zst",
        ".acp.jsonl",
        ".jsonl.gz",
        ".jsonl.zst",
        ".jsonl",
    ):
        if path.name.endswith(ending):
            return path.with_name(f"{path.name.removesuffix(ending)}.{infix}{ending}")
    return path.with_name(f"{path.stem}.{infix}{path.suffix}")


def keep_earlier(path: Path) -> Path | None:
    """Rename a recording that exists, with all its parts; return its new path.

    `r.acp.jsonl` becomes `r.ended-20260501-100000.acp.jsonl`: the time of its last change in UTC.
    An empty file and what is not a file stay.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    if path.is_symlink() or not stat.S_ISREG(status.st_mode) or not status.st_size:
        return None
    ended = time.strftime("%Y%m%d-%H%M%S", time.gmtime(status.st_mtime))
    number, kept = 1, _with_infix(path, f"ended-{ended}")
    while kept.exists():
        number += 1
        kept = _with_infix(path, f"ended-{ended}-{number}")
    part = 1
    while part == 1 or part_path(path, part).exists():
        part_path(path, part).rename(part_path(kept, part))
        part += 1
    return kept


class TraceFile:
    """Writes lines to a file of mode 0600 with one system call for each write.

    What was written survives the death of this process. With `max_bytes`, the next part begins
    when a part has reached this size; `header` makes the first line of each part. A path that ends
    in `.gz` or `.zst` is compressed, and every write can be read. An earlier recording of this name
    is kept under another name. Raise `OSError` if it cannot be written.
    """

    def __init__(
        self, path: Path, header: Callable[[int], bytes], *, max_bytes: int | None = None
    ) -> None:
        self.path: Path = path
        self.part: int = 0
        self._header = header
        self._max_bytes = max_bytes
        self._packer: Packer | None = None
        self._fd = -1
        self._size = 0
        self._open_next()

    def write(self, lines: bytes) -> None:
        """Write whole lines."""
        if self._max_bytes is not None and self._size >= self._max_bytes:
            self._close_part()
            self._open_next()
        self._write(lines)

    def close(self) -> None:
        """Close the file; may be called repeatedly."""
        self._close_part()

    def _open_next(self) -> None:
        self.part += 1
        self._packer = packer_of(self.path)
        if self.part == 1:
            keep_earlier(self.path)
        self._fd = os.open(part_path(self.path, self.part), _FLAGS, 0o600)
        if hasattr(os, "fchmod") and stat.S_ISREG(os.fstat(self._fd).st_mode):
            os.fchmod(self._fd, 0o600)  # the file may have existed
        self._size = 0
        self._write(self._header(self.part))

    def _write(self, data: bytes) -> None:
        self._write_all(data if self._packer is None else self._packer.pack(data))

    def _write_all(self, data: bytes) -> None:
        self._size += len(data)
        written = os.write(self._fd, data)
        while written < len(data):  # the disk is nearly full, or a signal arrived
            data = data[written:]
            written = os.write(self._fd, data)

    def _close_part(self) -> None:
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        try:
            if self._packer is not None:
                self._fd = fd
                self._write_all(self._packer.finish())
        finally:
            self._fd = -1
            os.close(fd)
