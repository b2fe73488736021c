"""Reads some lines of a text, and no more of it than needed."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from accord.errors import AccordError

MAX_BYTES = 16 * 1024 * 1024  # of the lines that one read returns
_MAX_SCANNED = 1024 * 1024 * 1024  # bytes of a file that are looked at for them
_CHUNK = 256 * 1024


class TooLarge(AccordError, OSError):
    """More text was requested than one read returns; use `line` and `limit`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(errno.EFBIG, reason, path)


def lines_of(text: str, line: int | None, limit: int | None) -> str:
    """Return `limit` lines, starting at `line`, which counts from 1; empty beyond the end.

    Only a line feed ends a line: other marks are text in most programs.
    """
    skipped = max((line or 1) - 1, 0)
    parts = text.split("\n", skipped)
    if len(parts) <= skipped:
        return ""
    rest = parts[-1]
    if limit is None:
        return rest
    lines = rest.split("\n", limit)
    return rest if len(lines) <= limit else "".join(f"{part}\n" for part in lines[:limit])


def read_lines(
    fd: int,
    path: str,
    line: int | None,
    limit: int | None,
    *,
    max_bytes: int = MAX_BYTES,
    stop: Callable[[], bool] | None = None,
) -> bytes:
    """Return what `lines_of` returns, from an open file, read only up to the last line.

    Raises `TooLarge` beyond `max_bytes`, and `InterruptedError` once `stop` returns true.
    """
    kept = bytearray()
    skipped = max((line or 1) - 1, 0)
    scanned = 0
    while limit != 0 and (chunk := os.read(fd, _CHUNK)):
        if stop is not None and stop():
            raise InterruptedError(errno.EINTR, os.strerror(errno.EINTR), path)
        scanned += len(chunk)
        if scanned > _MAX_SCANNED:
            raise TooLarge(path, f"Line {line} is beyond the first {_MAX_SCANNED >> 20} MiB")
        ends = chunk.count(b"\n") if skipped else 0
        if ends < skipped:
            skipped -= ends
            continue
        begin = _after(chunk, skipped, 0)
        skipped = 0
        end = len(chunk)
        if limit is not None:
            ends = chunk.count(b"\n", begin)
            if ends >= limit:
                end, ends = _after(chunk, limit, begin), limit
            limit -= ends
        kept += memoryview(chunk)[begin:end]
        if len(kept) > max_bytes:
            raise TooLarge(path, f"More than {max_bytes >> 20} MiB in one read")
    return bytes(kept)


def _after(chunk: bytes, lines: int, begin: int) -> int:
    """Return the position after this number of line ends, which must exist."""
    for _ in range(lines):
        begin = chunk.index(b"\n", begin) + 1
    return begin
