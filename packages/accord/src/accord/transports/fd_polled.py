"""Reads and writes file descriptors that the event loop polls: pipes, sockets, terminals."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable
from itertools import islice

from accord.transports.base import HIGH_BYTES, LOW_BYTES, READ_BYTES
from accord.transports.fd_threaded import LAST_READS, Bytes

if sys.platform == "win32":
    raise ImportError("Windows can only poll sockets")


_AT_ONCE = 64  # buffers in one system call


class PolledReader:
    """Reads when the descriptor is readable; raises `OSError` if it cannot be polled."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fd: int,
        received: Callable[[bytes], None],
        ended: Callable[[OSError | None], None],
    ) -> None:
        self._loop = loop
        self._fd = fd
        self._received = received
        self._ended = ended
        self._over = False
        self._watched = False
        self._emptying = False
        self._was_blocking = os.get_blocking(fd)
        self.resume()
        os.set_blocking(fd, False)

    def pause(self) -> None:
        if self._watched:
            self._watched = False
            self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        if not self._watched and not self._over:
            self._loop.add_reader(self._fd, self._ready)
            self._watched = True
            if self._emptying:
                self._loop.call_soon(self._empty)

    def end_when_empty(self) -> None:
        """Read the available bytes, then end, although other processes could still write."""
        if not self._emptying:
            self._emptying = True
            self._loop.call_soon(self._empty)

    async def aclose(self) -> None:
        self.pause()
        if self._fd >= 0:
            self._over = True
            _free(self._fd, self._was_blocking)
            self._fd = -1

    def _ready(self) -> None:
        try:
            data = os.read(self._fd, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            if self._emptying:
                self._end(None)
        except OSError as exc:
            self._end(exc)
        else:
            if data:
                self._received(data)
            else:
                self._end(None)

    def _empty(self) -> None:
        for _ in range(LAST_READS):
            if not self._watched:
                return  # ended, or paused: `resume` continues
            self._ready()
        if self._watched:
            self._end(None)

    def _end(self, error: OSError | None) -> None:
        self.pause()
        self._over = True
        self._ended(error)


class PolledWriter:
    """Writes immediately what fits, and the rest when the descriptor is writable."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fd: int,
        writable: Callable[[], None],
        broken: Callable[[OSError], None],
    ) -> None:
        self.congested = False
        self._loop = loop
        self._fd = fd
        self._writable = writable
        self._broken = broken
        self._over = False
        self._waiting: deque[memoryview] = deque()
        self._waiting_bytes = 0
        self._all_written: asyncio.Future[None] | None = None
        self._was_blocking = os.get_blocking(fd)
        loop.add_writer(fd, self._ready)  # raises if it cannot be polled
        loop.remove_writer(fd)
        os.set_blocking(fd, False)

    def write(self, data: Bytes) -> None:
        if self._over:
            return
        sent = 0
        if not self._waiting:
            try:
                sent = os.write(self._fd, data)
            except (BlockingIOError, InterruptedError):
                pass
            except OSError as exc:
                self._break(exc)
                return
            if sent == len(data):
                return
            self._loop.add_writer(self._fd, self._ready)
        self._waiting.append(memoryview(data)[sent:])
        self._waiting_bytes += len(data) - sent
        if self._waiting_bytes > HIGH_BYTES:
            self.congested = True

    async def aclose(self, flush_s: float) -> None:
        """Write the waiting bytes, for at most `flush_s` seconds, and close."""
        try:
            if self._waiting and not self._over:
                self._all_written = self._loop.create_future()
                async with asyncio.timeout(flush_s):
                    await self._all_written
        except TimeoutError:
            pass  # the peer does not read
        finally:
            if self._waiting:
                self._loop.remove_writer(self._fd)
                self._waiting.clear()
            self._over = True
            if self._fd >= 0:
                _free(self._fd, self._was_blocking)
                self._fd = -1

    def _ready(self) -> None:
        waiting = self._waiting
        try:
            sent = os.writev(self._fd, list(islice(waiting, _AT_ONCE)))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as exc:
            self._break(exc)
            return
        self._waiting_bytes -= sent
        while sent:
            first = waiting[0]
            if sent < len(first):
                waiting[0] = first[sent:]
                break
            sent -= len(first)
            waiting.popleft()
        if not waiting:
            self._done()
        if self.congested and self._waiting_bytes < LOW_BYTES:
            self.congested = False
            self._writable()

    def _done(self) -> None:
        self._loop.remove_writer(self._fd)
        if self._all_written is not None and not self._all_written.done():
            self._all_written.set_result(None)

    def _break(self, error: OSError) -> None:
        if self._waiting:
            self._waiting.clear()
            self._done()
        self._over = True
        self.congested: bool = False
        # Not from within `write`.
        self._loop.call_soon(self._writable)
        self._loop.call_soon(self._broken, error)


def _free(fd: int, was_blocking: bool) -> None:
    if was_blocking:
        # Other processes may share the open file, as a shell shares its terminal.
        os.set_blocking(fd, True)
    os.close(fd)
