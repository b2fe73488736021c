"""Outgoing frames: one write per iteration of the event loop, and fair waiting for the peer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from accord.errors import TransportError
from accord.transports.base import Frame, Transport

_TURN_BYTES = 16 * 1024  # one task may send before others run
_FLUSH_BYTES = 64 * 1024  # at most collected for one write
_SENDERS_AT_ONCE = 8


class Outbox:
    """Writes the frames that `take` returns to the transport."""

    def __init__(
        self,
        transport: Transport,
        take: Callable[[], Sequence[Frame]],
        sent: Callable[[Sequence[Frame]], None] | None = None,
    ) -> None:
        self.blocked = False  # the transport is congested
        self.sent = sent  # called with the written frames
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._take = take
        self._due = False
        # The callbacks left in this iteration of the event loop, as asyncio's own loop keeps
        # them. With other loops, every write waits for the end of the iteration.
        self._yet_to_run: deque[object] | None = getattr(self._loop, "_ready", None)
        self._turn_bytes = 0
        self._unsent_bytes = 0
        self._senders: deque[asyncio.Future[None]] = deque()
        self.closed: TransportError | None = None

    def frames_added(self, size: int) -> bool:
        """Count added frames; return True if their sender should call `wait_for_room`."""
        self._unsent_bytes += size
        self._turn_bytes += size
        if not self._due:
            self._due = True
            self._loop.call_soon(self.flush)
        return self._turn_bytes > _TURN_BYTES or self.blocked

    def flush_soon(self) -> None:
        """Write at the end of this iteration of the event loop."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self.flush)

    def flush_when_idle(self) -> None:
        """Write now if no other callback is due in this iteration, else at its end."""
        if self._yet_to_run is None or self._yet_to_run:
            self.flush_soon()
        else:
            self.flush()

    def defer_flush(self) -> None:
        """Do not schedule a write: the caller calls `flush` in the same iteration."""
        self._due = True

    def flush(self) -> None:
        """Write all frames now."""
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
        """Let other tasks send, and wait while the transport is congested.

        Raise the error given to `close`.
        """
        self._turn_bytes = 0
        if self._unsent_bytes > _FLUSH_BYTES:
            self.flush()
        if not self.blocked:
            await asyncio.sleep(0)
        while self.blocked and self.closed is None:
            sender: asyncio.Future[None] = self._loop.create_future()
            self._senders.append(sender)
            await sender
        if self.closed is not None:
            raise self.closed

    def resume(self) -> None:
        """Wake waiting senders: the transport is no longer congested."""
        self.blocked = False
        self._wake_some()

    def close(self, error: TransportError) -> None:
        """Make all waiting senders raise an error, now and later."""
        self.closed = error
        self.blocked: bool = False
        while self._senders:
            _wake(self._senders.popleft())

    def _wake_some(self) -> None:
        for _ in range(min(len(self._senders), _SENDERS_AT_ONCE)):
            _wake(self._senders.popleft())
        if self._senders:
            # Runs after the tasks that were just woken.
            self._loop.call_soon(self._wake_more)

    def _wake_more(self) -> None:
        if not self.blocked:
            self._wake_some()


def _wake(sender: asyncio.Future[None]) -> None:
    if not sender.done():
        sender.set_result(None)
