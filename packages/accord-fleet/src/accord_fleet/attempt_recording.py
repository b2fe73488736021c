"""The recording of one attempt: small ones stay in memory until they are stored."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from accord.text.redact import MASK
from accord_fleet.message_texts import text_in, with_text
from accord_fleet.redaction import Redactor
from accord_fleet.running_agent import Direction
from accord_fleet.split_secrets import SplitSecrets
from accord_fleet.types.task import WorkItem
from accord_trace import HopRecorder, Recording

_WAITING_BYTES = 64 * 1024  # an attempt without a result is repeated: its last frames may wait
_MEMORY_BYTES = 64 * 1024  # compressed; larger recordings are in a file
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


_Frame: TypeAlias = tuple[HopRecorder, float, Literal["to_agent", "to_client"], bytes]


class AttemptRecording:
    """Records the messages of an attempt; those of an earlier handshake are repeated in it."""

    def __init__(self, path: Path, item: WorkItem, redactor: Redactor) -> None:
        """`path` is where the file is, if the recording needs one."""
        self._redactor = redactor
        self._file = _Compressed(path)
        self._recording = Recording(
            path, argv=(item.task.id, item.agent, str(item.attempt)), file=self._file
        )
        self._hop: HopRecorder = self._recording.hop("Client", "Agent")
        self._waiting: list[_Frame] = []
        self._waiting_bytes = 0
        self._split = SplitSecrets(redactor.values, MASK, self._write)

    def repeat(self, handshake: Sequence[tuple[Direction, bytes]]) -> None:
        """Record a handshake that was before this attempt."""
        for direction, frame in handshake:
            self.frame(direction, frame)

    def next_connection(self) -> None:
        """Let the following messages be those of another connection."""
        self._hop = self._recording.hop("Client", "Agent")

    def frame(self, direction: Direction, frame: bytes | bytearray) -> None:
        """Record a message, without secrets, also if they arrive in pieces."""
        to = "to_agent" if direction == "sent" else "to_client"
        item = (self._hop, self._recording.now(), to, bytes(frame))
        if not self._redactor.values:
            self._write(item, None)
            return
        piece = text_in(frame) if direction == "received" else None
        if piece is None:
            self._split.add(item, len(frame))
        else:
            self._split.add(item, len(frame), stream=(self._hop, piece.stream), text=piece.text)

    def close(self) -> Path | bytes:
        """Return the whole recording: the path of its file, or its contents."""
        self._end()
        return self._file.contents()

    def close_to_file(self) -> Path:
        """Return the path of the whole recording; raise `OSError` if it cannot be written."""
        self._end()
        return self._file.path_of_file()

    def _end(self) -> None:
        self._split.flush()
        self._flush()
        self._recording.close()

    def _write(self, frame: _Frame, text: str | None) -> None:
        if text is not None:
            frame = (*frame[:3], with_text(frame[3], text))
        self._waiting.append(frame)
        self._waiting_bytes += len(frame[3])
        if self._waiting_bytes >= _WAITING_BYTES:
            self._flush()

    def _flush(self) -> None:
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        redact = self._redactor.data
        # One search in many frames takes less time than one in each.
        together = b"\n".join([frame[3] for frame in waiting])
        if redact(together) is not together:
            waiting = [(*frame[:3], bytes(redact(frame[3]))) for frame in waiting]
        self._recording.queue(waiting)
        self._recording.flush()


class _Compressed:
    """Lines, compressed: in memory, and from a size on in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._deflate = zlib.compressobj(1, zlib.DEFLATED, 31, 8)
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._fd = -1
        self._has_file = False

    def write(self, lines: bytes) -> None:
        """Compress lines."""
        self._add(self._deflate.compress(lines))

    def close(self) -> None:
        """Compress what is left."""
        try:
            self._add(self._deflate.flush())
        finally:
            self._close_file()

    def contents(self) -> Path | bytes:
        """Return the path of the file, or what is in memory."""
        return self._path if self._has_file else b"".join(self._waiting)

    def path_of_file(self) -> Path:
        """Return the path of the file, which is written now if there is none."""
        if not self._has_file:
            try:
                self._write_waiting()
            finally:
                self._close_file()
        return self._path

    def _add(self, data: bytes) -> None:
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if self._has_file or self._waiting_bytes >= _MEMORY_BYTES:
            self._write_waiting()

    def _close_file(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _write_waiting(self) -> None:
        if not self._has_file:
            self._fd = os.open(self._path, _FLAGS, 0o600)
            self._has_file = True
        data = memoryview(b"".join(self._waiting))
        self._waiting, self._waiting_bytes = [], 0
        while data:
            data = data[os.write(self._fd, data) :]
