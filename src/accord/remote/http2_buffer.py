"""Lets an HTTP/2 stream that is not read hold back the application, which hypercorn does not do."""

from __future__ import annotations

import hypercorn.protocol.h2 as _h2

__all__ = ("hold_back_unread_streams",)


class _StreamBuffer(_h2.StreamBuffer):
    """The bytes of a response that wait for the client.

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


def hold_back_unread_streams() -> None:
    """Replace the buffers of hypercorn in this process (T11)."""
    _h2.StreamBuffer = _StreamBuffer
