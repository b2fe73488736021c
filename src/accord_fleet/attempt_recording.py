"""The recording of one attempt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from accord.trace import HopRecorder, Recording
from accord_fleet.redaction import Redactor
from accord_fleet.running_agent import Direction
from accord_fleet.types.task import WorkItem

__all__ = ("AttemptRecording",)

_WAITING_BYTES = 64 * 1024  # an attempt without a result is repeated: its last frames may wait


class AttemptRecording:
    """Records the messages of an attempt; those of an earlier handshake are repeated in it."""

    def __init__(self, path: Path, item: WorkItem, redactor: Redactor) -> None:
        self._redactor = redactor
        self._recording = Recording(path, argv=(item.task.id, item.agent, str(item.attempt)))
        self._hop: HopRecorder = self._recording.hop("Client", "Agent")
        self._waiting_bytes = 0

    @property
    def path(self) -> Path:
        """The file."""
        return self._recording.path

    def repeat(self, handshake: Sequence[tuple[Direction, bytes]]) -> None:
        """Record a handshake that was before this attempt."""
        for direction, frame in handshake:
            self.frame(direction, frame)

    def next_connection(self) -> None:
        """Let the following messages be those of another connection."""
        self._hop = self._recording.hop("Client", "Agent")

    def frame(self, direction: Direction, frame: bytes | bytearray) -> None:
        """Record a message, without secrets."""
        data = bytes(self._redactor.data(frame))
        to = "to_agent" if direction == "sent" else "to_client"
        self._recording.queue(self._hop, to, [data], self._recording.now())
        self._waiting_bytes += len(data)
        if self._waiting_bytes >= _WAITING_BYTES:
            self._waiting_bytes = 0
            self._recording.flush()

    def close(self) -> Path:
        """Close the file; return its path."""
        self._recording.close()
        return self._recording.path
