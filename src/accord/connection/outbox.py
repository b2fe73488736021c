"""What is on its way out: one write per loop turn, and a fair wait while the peer is slow."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from accord.errors import TransportError
from accord.transports.base import Frame, Transport

__all__ = ("Outbox",)

_TURN_BYTES = 16 * 1024  # what one task may send before others get their turn
_FLUSH_BYTES = 64 * 1024  # what is held back for one write at most
_SENDERS_AT_ONCE = 8


class Outbox:
    """Takes frames from `take` and writes them to the transport."""

    def __init__(
        self,
        transport: Transport,
        take: Callable[[], Sequence[Frame]],
        sent: Callable[[Sequence[Frame]], None] | None = None,
    ) -> None:
        self.blocked = False  # the transport is congested
        self.sent = sent  # is shown what is written
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._take = take
        self._due = False
        # What is left of a loop turn, where the loop shows it (asyncio's own does, to those who
        # look); elsewhere every write waits for the end of the turn.
        self._yet_to_run: deque[object] | None = getattr(self._loop, "_ready", None)
        self._turn_bytes = 0
        self._unsent_bytes = 0
        self._senders: deque[asyncio.Future[None]] = deque()
        self._closed: TransportError | None = None

    def frames_added(self, size: int) -> bool:
        """Frames of this size were added; tell whether their sender should wait for `room`."""
        self._unsent_bytes += size
        self._turn_bytes += size
        if not self._due:
            self._due = True
            self._loop.call_soon(self.flush)
        return self._turn_bytes > _TURN_BYTES or self.blocked

    def flush_soon(self) -> None:
        """Write at the end of this loop turn."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self.flush)

    def flush_when_idle(self) -> None:
        """Write as soon as nothing more can come in this loop turn: somebody waits for it."""
        if self._yet_to_run is None or self._yet_to_run:
            self.flush_soon()
        else:
            self.flush()

    def defer_flush(self) -> None:
        """Whoever calls this calls `flush` in the same loop turn."""
        self._due = True

    def flush(self) -> None:
        """Write what there is, at once."""
        self._due = False
        self._unsent_bytes = 0
        frames = self._take()
        if not frames:
            return
        if self.sent is not None:
            self.sent(frames)
        self._transport.write(frames)
        self.blocked = self._transport.congested

    async def wait_for_room(self) -> None:
        """Let others send; while the peer reads slower, wait for one's turn.

        Raise the error given to `close`.
        """
        self._turn_bytes = 0
        if self._unsent_bytes > _FLUSH_BYTES:
            self.flush()
        if not self.blocked:
            await asyncio.sleep(0)
        while self.blocked and self._closed is None:
            sender: asyncio.Future[None] = self._loop.create_future()
            self._senders.append(sender)
            await sender
        if self._closed is not None:
            raise self._closed

    def resume(self) -> None:
        """The transport takes more."""
        self.blocked = False
        self._wake_some()

    def close(self, error: TransportError) -> None:
        """Nobody waits any more."""
        self._closed = error
        self.blocked = False
        while self._senders:
            _wake(self._senders.popleft())

    def _wake_some(self) -> None:
        for _ in range(min(len(self._senders), _SENDERS_AT_ONCE)):
            _wake(self._senders.popleft())
        if self._senders:
            # Comes up when those woken have had their turn.
            self._loop.call_soon(self._wake_more)

    def _wake_more(self) -> None:
        if not self.blocked:
            self._wake_some()


def _wake(sender: asyncio.Future[None]) -> None:
    if not sender.done():
        sender.set_result(None)
