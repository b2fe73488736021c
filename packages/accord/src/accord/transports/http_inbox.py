"""What has arrived by HTTP and is yet to be delivered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from accord.errors import TransportError
from accord.transports.base import Frame, NullReceiver, Receiver


class Inbox:
    """Delivers the frames of one iteration of the event loop together, and the end after them.

    While `may_read` is not set, everything waits.
    """

    def __init__(self, frame_bytes: int) -> None:
        self.receiver: Receiver = NullReceiver()
        self.may_read: asyncio.Event = asyncio.Event()
        self.may_read.set()
        self.error: TransportError | None = None  # how the connection has ended
        self.has_ended: bool = False
        self._frame_bytes = frame_bytes
        self._arrived: list[Frame] = []
        self._due = False
        self._end_delivered = False

    def put(self, frames: Sequence[Frame]) -> None:
        """Deliver frames after those that came before."""
        self._arrived += frames
        self._deliver_soon()

    def refuse(self, head: bytes) -> None:
        """Report a frame over the limit, which begins like this."""
        arrived, self._arrived = self._arrived, []
        if arrived:
            self.receiver.frames_received(arrived)
        self.receiver.frame_refused(self._frame_bytes, head)

    def end(self, error: TransportError) -> None:
        """Deliver the end."""
        self.has_ended = True
        self.error = error
        self._deliver_soon()

    def resume(self) -> None:
        """Continue after a pause."""
        self.may_read.set()
        self._deliver_soon()

    def _deliver_soon(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        self._due = False
        if self._arrived and self.may_read.is_set():
            arrived, self._arrived = self._arrived, []
            self.receiver.frames_received(arrived)
        if self.has_ended and not self._end_delivered and self.may_read.is_set():
            self._end_delivered = True
            self.receiver.eof_received(self.error)
