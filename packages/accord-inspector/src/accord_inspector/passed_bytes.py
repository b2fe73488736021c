"""What a tap has passed on and not yet recorded: recording does not delay the next bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from accord_trace.recording import Recording

_PAUSE_S = 0.01  # messages of a dialogue are recorded together
_BYTES = 128 * 1024  # that are recorded at once

_Record: TypeAlias = Callable[[bytes, float], None]


class PassedBytes:
    """Keeps the order of both directions of a tap until it records them, after 10 ms or 128 KB."""

    def __init__(self, recording: Recording, written: Callable[[], None]) -> None:
        """`written` is called after the recording was written."""
        self._recording = recording
        self._written = written
        self._waiting: list[tuple[_Record, bytes, float]] = []
        self._waiting_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, record: _Record, data: bytes) -> None:
        """Let `record` be called with bytes that were passed now, and with their time."""
        self._waiting.append((record, data, self._recording.now()))
        self._waiting_bytes += len(data)
        if self._waiting_bytes >= _BYTES:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE_S, self.flush)

    def flush(self) -> None:
        """Record everything that was passed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._waiting:
            return
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        for record, data, ts in waiting:
            record(data, ts)
        self.written()

    def written(self) -> None:
        """Write what was recorded, and tell it."""
        self._recording.flush()
        self._written()
