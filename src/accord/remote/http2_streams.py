"""What hypercorn does otherwise with the streams of HTTP/2 connections: memory, and how many."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import hypercorn.protocol.h2 as _h2
import priority
from priority.priority import PriorityTree

__all__ = ("HTTP2_STREAMS", "adapt_hypercorn")

HTTP2_STREAMS = 1024  # of a connection at the same time (R-HTTP-39)


class _StreamBuffer(_h2.StreamBuffer):
    """The bytes of a response that wait for the client; the application waits while it is full.

    hypercorn 0.18 lets the application continue as soon as less than a frame was removed, also if
    nothing was removed because the client reads nothing. The buffer then grows with each message.
    """

    async def pop(self, max_length: int) -> bytes:
        length = min(len(self.buffer), max_length)
        data = bytes(self.buffer[:length])
        del self.buffer[:length]
        if len(self.buffer) < _h2.BUFFER_LOW_WATER:
            await self._paused.set()
        if not self.buffer:
            await self._is_empty.set()
        return data


class _PriorityTree(PriorityTree):
    """The streams of a connection, in the order in which they are sent.

    By default it fails at the 1,000th, and hypercorn 0.18 then ends the connection. Streams that
    others depend on also count.
    """

    def __init__(self) -> None:
        super().__init__(maximum_streams=2 * HTTP2_STREAMS)


def adapt_hypercorn() -> None:
    """Replace both in hypercorn, in this process (T11, R-HTTP-39)."""
    _h2.StreamBuffer = _StreamBuffer
    changed = {**vars(priority), "PriorityTree": _PriorityTree}
    module: Any = _h2
    module.priority = SimpleNamespace(**changed)
