"""The messages that clients have posted, until the agent reads them."""

from __future__ import annotations

import asyncio
from collections import deque

from accord.transports.base import Frame, NullReceiver, Receiver


class PostedInput:
    """Passes frames to a receiver in order, once it is known and while it reads."""

    def __init__(self) -> None:
        self.ended: bool = False
        self._loop = asyncio.get_running_loop()
        self._receiver: Receiver | None = None
        self._paused = False
        self._error: Exception | None = None
        self._held: deque[tuple[Frame, asyncio.Future[bool]]] = deque()

    def start(self, receiver: Receiver) -> None:
        """Pass the frames to a receiver from now on."""
        self._receiver = receiver
        self._loop.call_soon(self._deliver_held)

    def pause(self) -> None:
        """Pass nothing for now."""
        self._paused = True

    def resume(self) -> None:
        """Pass frames again."""
        self._paused = False
        self._loop.call_soon(self._deliver_held)

    async def deliver(self, frame: Frame) -> bool:
        """Pass a frame; return once the agent has it, or False if the input has ended."""
        if self.ended:
            return False
        receiver = self._receiver
        if receiver is not None and not self._paused and not self._held:
            receiver.frames_received((frame,))
            return True
        delivered: asyncio.Future[bool] = self._loop.create_future()
        self._held.append((frame, delivered))
        return await delivered

    def end(self, error: Exception | None) -> None:
        """Tell the receiver that nothing more arrives; frames that wait are dropped."""
        if not self.ended:
            self.ended = True
            self._error = error
            self._drop_held()
            self._loop.call_soon(self._deliver_end)

    def close(self) -> None:
        """Call the receiver no more."""
        self.ended = True
        self._receiver = NullReceiver()
        self._drop_held()

    def tell_writable(self) -> None:
        """Tell the receiver that it can write again."""
        if self._receiver is not None:
            self._receiver.writable()

    def _deliver_held(self) -> None:
        while self._held and self._receiver is not None and not self._paused:
            frame, delivered = self._held.popleft()
            if not delivered.done():  # the POST was not cancelled
                self._receiver.frames_received((frame,))
                delivered.set_result(True)
        if self.ended:
            self._deliver_end()

    def _deliver_end(self) -> None:
        """Pass the end, once, as soon as the receiver is known."""
        if self._receiver is not None:
            receiver, self._receiver = self._receiver, NullReceiver()
            receiver.eof_received(self._error)

    def _drop_held(self) -> None:
        while self._held:
            delivered = self._held.popleft()[1]
            if not delivered.done():
                delivered.set_result(False)
