"""Compression of recordings: gzip, and zstd where it is installed."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from accord.errors import AccordError

__all__ = ("Packer", "TraceError", "Unpacker", "packer_of", "unpacker_of")

_PIECE = 1024 * 1024
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


class TraceError(AccordError):
    """A recording cannot be read, or is not one."""


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

    def pieces(self, data: bytes) -> Iterator[bytes]:
        try:
            while data and not self._is_damaged:
                piece = self._inflate.decompress(data, _PIECE)
                data = self._inflate.unconsumed_tail
                if self._inflate.eof:
                    data, self._inflate = self._inflate.unused_data, zlib.decompressobj(31)
                yield piece
        except zlib.error:
            self._is_damaged = True


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

    def pieces(self, data: bytes) -> Iterator[bytes]:
        try:
            while not self._is_damaged:
                piece = self._decompressor.decompress(data, _PIECE)
                data = b""
                if piece:
                    yield piece
                if self._decompressor.eof:
                    data = self._decompressor.unused_data
                    self._decompressor = self._zstd.ZstdDecompressor()
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
