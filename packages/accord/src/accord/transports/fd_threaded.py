"""Reads and writes file descriptors that no event loop polls: files, and all on Windows.

Each reader and writer has a thread. The threads are daemons: one that blocks in a system call does
not delay the end of the program. On POSIX they never block, since they poll first, together with a
pipe that wakes them. On Windows a read ends when the other side closes the pipe.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from accord.transports.base import HIGH_BYTES, LOW_BYTES, READ_BYTES

Bytes: TypeAlias = bytes | bytearray | memoryview

LAST_READS = 16  # a pipe holds 64 KiB, or up to 1 MiB on request

_AHEAD = 4  # reads that the event loop has not handled yet
_GONE_S = 0.5  # for a thread to notice that it must stop


class _Worker:
    """A thread that works on one file descriptor and closes it at the end."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int, name: str) -> None:
        self._loop = loop
        self._fd = fd
        self._stopped = False
        self._gone: asyncio.Future[None] = loop.create_future()
        self._wake: tuple[int, ...] = () if sys.platform == "win32" else os.pipe()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        raise NotImplementedError

    def _run(self) -> None:
        try:
            self._work()
        finally:
            os.close(self._fd)
            if not self._call_in_loop(self._leave):
                self._forget_wake()

    def _call_in_loop(self, callback: Callable[..., None], *args: Any) -> bool:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            self._stopped = True  # the event loop has been closed
            return False
        return True

    def _leave(self) -> None:
        self._forget_wake()
        self._gone.set_result(None)

    def _forget_wake(self) -> None:
        for fd in self._wake:
            os.close(fd)
        self._wake = ()

    def _stop(self) -> None:
        self._stopped = True
        if self._wake:
            os.write(self._wake[1], b"x")

    def _wait(self, *, writing: bool = False, forever: bool = True) -> bool:
        """Wait; return True if a system call will not block, False if stopped."""
        if sys.platform == "win32":
            return not self._stopped and forever
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT if writing else select.POLLIN)
        poll.register(self._wake[0], select.POLLIN)
        ready = poll.poll(None if forever else 0)
        return not self._stopped and any(fd == self._fd for fd, _ in ready)

    async def _wait_gone(self, timeout_s: float) -> bool:
        done, _ = await asyncio.wait([self._gone], timeout=timeout_s)
        return bool(done)


class ThreadedReader(_Worker):
    """Reads ahead a little, and calls `received` on the event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fd: int,
        received: Callable[[bytes], None],
        ended: Callable[[OSError | None], None],
    ) -> None:
        self._received = received
        self._ended = ended
        self._slots = threading.Semaphore(_AHEAD)
        self._held: deque[bytes | OSError | None] = deque()
        self._paused = False
        self._over = False
        self._emptying = False
        super().__init__(loop, fd, "accord reader")

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._loop.call_soon(self._hand_over)

    def end_when_empty(self) -> None:
        """Read the available bytes, then end, although other processes could still write."""
        self._emptying = True
        if self._wake:
            os.write(self._wake[1], b"x")
        elif not self._over:
            # On Windows the thread stays blocked in a read.
            self._loop.call_soon(self._came, None)

    async def aclose(self) -> None:
        self._over = True
        self._held.clear()
        if not self._gone.done():
            self._stop()
            self._slots.release()
            await self._wait_gone(_GONE_S)

    def _work(self) -> None:
        error: OSError | None = None
        last_reads = 0
        try:
            while last_reads < LAST_READS:
                emptying = self._emptying
                if not self._wait(forever=not emptying):
                    if self._stopped:
                        return
                    if emptying:
                        break
                    continue  # woken for the last reads
                last_reads += emptying
                data = os.read(self._fd, READ_BYTES)
                if not data:
                    break
                self._slots.acquire()
                if self._stopped:
                    return
                self._call_in_loop(self._came, data)
        except OSError as exc:
            error = exc
        self._call_in_loop(self._came, error)

    def _came(self, item: bytes | OSError | None) -> None:
        self._held.append(item)
        self._hand_over()

    def _hand_over(self) -> None:
        while self._held and not self._paused and not self._over:
            item = self._held.popleft()
            if isinstance(item, bytes):
                self._slots.release()
                self._received(item)
            else:
                self._over = True
                self._ended(item)


class ThreadedWriter(_Worker):
    """Queues bytes and writes them in its thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fd: int,
        writable: Callable[[], None],
        broken: Callable[[OSError], None],
    ) -> None:
        self.congested = False
        self._writable = writable
        self._broken = broken
        self._over = False
        self._closing = False
        self._changed = threading.Condition()
        self._waiting: deque[Bytes] = deque()
        self._waiting_bytes = 0
        # A poll guarantees room for PIPE_BUF bytes; files always have room.
        if sys.platform == "win32" or stat.S_ISREG(os.fstat(fd).st_mode):
            self._max_piece = READ_BYTES
        else:
            self._max_piece = select.PIPE_BUF
        super().__init__(loop, fd, "accord writer")

    def write(self, data: Bytes) -> None:
        if self._over:
            return
        with self._changed:
            self._waiting.append(data)
            self._waiting_bytes += len(data)
            self.congested = self._waiting_bytes > HIGH_BYTES or self.congested
            self._changed.notify()

    async def aclose(self, flush_s: float) -> None:
        """Write the waiting bytes, for at most `flush_s` seconds, and close."""
        self._over = True
        if self._gone.done():
            return
        try:
            with self._changed:
                self._closing = True
                self._changed.notify()
            if await self._wait_gone(flush_s):
                return
        finally:
            if not self._gone.done():
                self._stop()
        await self._wait_gone(_GONE_S)

    def _work(self) -> None:
        try:
            while data := self._next():
                view = memoryview(data)
                while view:
                    if not self._wait(writing=True):
                        return
                    sent = os.write(self._fd, view[: self._max_piece])
                    view = view[sent:]
                self._written(len(data))
        except OSError as exc:
            self._call_in_loop(self._break, exc)

    def _next(self) -> Bytes:
        with self._changed:
            while not self._waiting and not self._closing:
                self._changed.wait()
            return self._waiting.popleft() if self._waiting else b""

    def _written(self, size: int) -> None:
        with self._changed:
            self._waiting_bytes -= size
            relieved = self.congested and self._waiting_bytes < LOW_BYTES
        if relieved:
            self._call_in_loop(self._relieve)

    def _relieve(self) -> None:
        with self._changed:
            relieved = self.congested and self._waiting_bytes < LOW_BYTES
            if relieved:
                self.congested = False
        if relieved and not self._over:
            self._writable()

    def _break(self, error: OSError) -> None:
        self._waiting.clear()
        self.congested: bool = False
        if not self._over:
            self._over = True
            self._writable()
            self._broken(error)
