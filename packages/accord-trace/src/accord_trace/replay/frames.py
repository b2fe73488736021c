"""The frames of a recording: those of a large one are in a file."""

from __future__ import annotations

import os
import tempfile
import weakref

_MEMORY_BYTES = 64 * 1024 * 1024


class Frames:
    """Keeps frames: the first ones in memory, the rest in a temporary file without a name."""

    def __init__(self, memory_bytes: int = _MEMORY_BYTES) -> None:
        self._room = memory_bytes
        self._fd = -1
        self._size = 0

    def keep(self, frame: bytes) -> bytes | StoredFrame:
        """Return the frame, or its place; raise `OSError` if the file cannot be written."""
        if self._room > 0:
            self._room -= len(frame)
            return frame
        if self._fd < 0:
            with tempfile.TemporaryFile(prefix="accord-") as file:
                self._fd = os.dup(file.fileno())
            weakref.finalize(self, os.close, self._fd)
        stored = StoredFrame(self, self._size, len(frame))
        os.lseek(self._fd, self._size, os.SEEK_SET)
        while frame:
            written = os.write(self._fd, frame)
            self._size += written
            frame = frame[written:]
        return stored

    def read(self, at: int, size: int) -> bytes:
        """Return what is in the file at a place."""
        os.lseek(self._fd, at, os.SEEK_SET)
        return os.read(self._fd, size)


class StoredFrame:
    """A frame that is in the file."""

    __slots__ = ("_at", "_frames", "_size")

    def __init__(self, frames: Frames, at: int, size: int) -> None:
        self._frames = frames
        self._at = at
        self._size = size

    def read(self) -> bytes:
        """Return the frame."""
        return self._frames.read(self._at, self._size)
