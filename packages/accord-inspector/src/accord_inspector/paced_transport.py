"""A transport whose frames are passed on in short parts, so that the page is served in between."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import TypeAlias

from accord.transports.base import Frame, NullReceiver, Receiver, Transport

_PART = 32  # frames between two looks at the clock
_PART_S = 0.01  # for frames, before others run

_Item: TypeAlias = Sequence[Frame] | Callable[[], None]


class PacedTransport(Transport):
    """Passes on what `inner` reads, for a few milliseconds in each iteration of the event loop.

    One read may have thousands of frames, which take seconds to be recorded and handled. While some
    wait, nothing is read: an agent that writes faster is slowed down. `rest` slows it down further.
    """

    def __init__(self, inner: Transport) -> None:
        self.frame_bytes = inner.frame_bytes
        self.inner: Transport = inner
        self._receiver: Receiver = NullReceiver()
        self._waiting: deque[_Item] = deque()
        self._is_paused = False
        self._is_passing = False
        self._next: asyncio.Handle | None = None
        self._rest: asyncio.TimerHandle | None = None

    async def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        await self.inner.start(self)

    def write(self, frames: Sequence[Frame]) -> None:
        self.inner.write(frames)

    @property
    def congested(self) -> bool:
        return self.inner.congested

    def pause_reading(self) -> None:
        self._is_paused = True
        self.inner.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        self._continue()

    def rest(self, seconds: float) -> None:
        """Read nothing for a time."""
        if self._rest is None:
            self.inner.pause_reading()
            self._rest = asyncio.get_running_loop().call_later(seconds, self._rested)

    async def aclose(self) -> None:
        self._receiver = NullReceiver()
        self._waiting.clear()
        for handle in (self._next, self._rest):
            if handle is not None:
                handle.cancel()
        await self.inner.aclose()

    async def exit_error(self) -> Exception | None:
        return await self.inner.exit_error()

    # The receiver of the inner transport.

    def frames_received(self, frames: Sequence[Frame]) -> None:
        self._add(frames)

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        self._add(partial(self._receiver.frame_refused, limit, head))

    def eof_received(self, error: Exception | None) -> None:
        self._add(partial(self._receiver.eof_received, error))

    def writable(self) -> None:
        self._receiver.writable()

    def _add(self, item: _Item) -> None:
        self._waiting.append(item)
        if self._next is None and not self._is_paused:
            self._pass()

    def _pass(self) -> None:
        self._next = None
        until = perf_counter() + _PART_S
        self._is_passing = True
        while self._waiting and not self._is_paused:
            item = self._waiting.popleft()
            if callable(item):
                item()
            else:
                if len(item) > _PART:
                    self._waiting.appendleft(item[_PART:])
                    item = item[:_PART]
                self._receiver.frames_received(item)
            if perf_counter() >= until:
                break
        self._is_passing = False
        self._continue()

    def _continue(self) -> None:
        """Pass on more, or read more, unless this is not the time for it."""
        if self._is_paused or self._is_passing or self._next is not None:
            return
        if self._waiting:
            self.inner.pause_reading()
            self._next = asyncio.get_running_loop().call_soon(self._pass)
        elif self._rest is None:
            self.inner.resume_reading()

    def _rested(self) -> None:
        self._rest = None
        self._continue()
