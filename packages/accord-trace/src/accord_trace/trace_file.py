"""The files of a recording: private, never buffered, optionally compressed and split by size.

They are compressed by gzip, or by zstd where it is installed.
"""

from __future__ import annotations

import os
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from accord.errors import AccordError

# Compression of recordings: gzip, and zstd where it is installed.

_PIECE = 1024 * 1024
_STEP = 64
_ZSTD_STEP = 256
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_SYNC_MARK = b"\x00\x00\xff\xff"  # ends what was written with Z_SYNC_FLUSH
_DAMAGED = "the {kind} data are damaged after {size:,} bytes of text: the rest is not read"
_CUT = "the {kind} data are cut after {size:,} bytes of text: the rest is missing"


class TraceError(AccordError):
    """A recording cannot be read, or is not one."""


class TraceReplaced(TraceError):
    """Another recording has taken the place of the one that is read."""


class Packer(Protocol):
    """Compresses what is written to one file."""

    def pack(self, data: bytes) -> bytes:
        """Return compressed data from which everything up to now can be read."""
        ...

    def finish(self) -> bytes:
        """Return the end of the file."""
        ...


class Unpacker(Protocol):
    """Decompresses what is read from one file."""

    @property
    def problem(self) -> str:
        """What is wrong with the data if the file ends here; empty if nothing is known."""
        ...

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield what the next bytes of the file contain, in bounded pieces."""
        ...


def packer_of(path: Path) -> Packer | None:
    """Return what compresses a file of this name; raise `OSError` if it is not installed."""
    if path.suffix == ".gz":
        return _Deflate()
    if path.suffix == ".zst":
        try:
            return _Zstd(_zstd())
        except ImportError:
            raise OSError(0, "compression with zstd needs the extra `zstd` of accord") from None
    return None


def unpacker_of(head: bytes, name: object) -> Unpacker:
    """Return what decompresses a file that begins like this; raise `TraceError` if nothing can."""
    if head.startswith(_GZIP):
        return _Inflate()
    if head.startswith(_ZSTD):
        try:
            return _Unzstd(_zstd())
        except ImportError:
            raise TraceError(
                f"{name} is compressed with zstd: install the extra `zstd` of accord"
            ) from None
    return _Plain()


class _Plain:
    problem = ""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        yield data


class _Deflate:
    def __init__(self) -> None:
        self._deflate = zlib.compressobj(6, zlib.DEFLATED, 31)

    def pack(self, data: bytes) -> bytes:
        return self._deflate.compress(data) + self._deflate.flush(zlib.Z_SYNC_FLUSH)

    def finish(self) -> bytes:
        return self._deflate.flush()


class _Inflate:
    """A file may have several members; damaged data end it."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(31)
        self._is_damaged = False
        self._is_begun = False  # a member that has not ended
        self._tail = b""
        self._size = 0

    @property
    def problem(self) -> str:
        if self._is_damaged:
            return _DAMAGED.format(kind="gzip", size=self._size)
        # After a write of `_Deflate`, nothing is missing.
        is_cut = self._is_begun and not self._tail.endswith(_SYNC_MARK)
        return _CUT.format(kind="gzip", size=self._size) if is_cut else ""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        self._tail = (self._tail + data[-len(_SYNC_MARK) :])[-len(_SYNC_MARK) :]
        while data and not self._is_damaged:
            self._is_begun = True
            before = self._inflate.copy()
            try:
                piece = self._inflate.decompress(data, _PIECE)
            except zlib.error:
                self._is_damaged = True
                piece = _before_damage(before, data)
            data = self._inflate.unconsumed_tail
            if self._inflate.eof:
                data, self._inflate = self._inflate.unused_data, zlib.decompressobj(31)
                data = data.lstrip(b"\0")  # padding
                self._is_begun = False
            self._size += len(piece)
            yield piece


def _before_damage(inflate: Any, data: bytes) -> bytes:
    """Return what can be read of damaged data: `decompress` loses it."""
    found = b""
    try:
        for start in range(0, len(data), _STEP):
            found += inflate.decompress(data[start : start + _STEP])
    except zlib.error:
        pass
    return found


class _Zstd:
    def __init__(self, zstd: Any) -> None:
        self._compressor = zstd.ZstdCompressor()
        self._flush = zstd.ZstdCompressor.FLUSH_BLOCK

    def pack(self, data: bytes) -> bytes:
        return self._compressor.compress(data, self._flush)

    def finish(self) -> bytes:
        return self._compressor.flush()


class _Unzstd:
    def __init__(self, zstd: Any) -> None:
        self._zstd = zstd
        self._decompressor = zstd.ZstdDecompressor()
        self._is_damaged = False
        self._is_begun = False  # a frame that has not ended
        self._last = b"\n"
        self._size = 0

    @property
    def problem(self) -> str:
        if self._is_damaged:
            return _DAMAGED.format(kind="zstd", size=self._size)
        # Blocks that `_Zstd` writes end with a line: whether one is missing is not known.
        is_cut = self._is_begun and not (self._size and self._last == b"\n")
        return _CUT.format(kind="zstd", size=self._size) if is_cut else ""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        # Of damaged data, all that is before them is read.
        for start in range(0, len(data), _ZSTD_STEP):
            yield from self._pieces(data[start : start + _ZSTD_STEP])

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        try:
            while not self._is_damaged:
                self._is_begun = self._is_begun or bool(data)
                piece = self._decompressor.decompress(data, _PIECE)
                data = b""
                if piece:
                    self._size += len(piece)
                    self._last = piece[-1:]
                    yield piece
                if self._decompressor.eof:
                    data = self._decompressor.unused_data
                    self._decompressor = self._zstd.ZstdDecompressor()
                    self._is_begun = False
                    if not data:
                        return
                elif self._decompressor.needs_input:
                    return
        except self._zstd.ZstdError:
            self._is_damaged = True


def _zstd() -> Any:
    """Return the module of Python 3.14, or its backport; raise `ImportError`."""
    try:
        return import_module("compression.zstd")
    except ImportError:
        return import_module("backports.zstd")


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
