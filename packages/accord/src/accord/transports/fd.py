"""Reads and writes file descriptors: polled if the event loop can, else in a thread."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Callable
from typing import Protocol

from accord.transports.fd_threaded import Bytes, ThreadedReader, ThreadedWriter

if sys.platform != "win32":
    from accord.transports.fd_polled import PolledReader, PolledWriter


class Reader(Protocol):
    """Reads: calls `received` with bytes, and `ended` once. Owns its file descriptor."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def end_when_empty(self) -> None:
        """Read the available bytes, then end, although other processes could still write."""
        ...

    async def aclose(self) -> None: ...


class Writer(Protocol):
    """Writes: calls `writable` after a congestion, `broken` once. Owns its file descriptor."""

    congested: bool

    def write(self, data: Bytes) -> None: ...

    async def aclose(self, flush_s: float) -> None:
        """Write the waiting bytes, for at most `flush_s` seconds, and close."""
        ...


def open_reader(
    loop: asyncio.AbstractEventLoop,
    fd: int,
    received: Callable[[bytes], None],
    ended: Callable[[OSError | None], None],
) -> Reader:
    """Return a reader, which has started."""
    if sys.platform != "win32" and not _needs_thread(fd):
        try:
            return PolledReader(loop, fd, received, ended)
        except (OSError, NotImplementedError):
            pass  # /dev/null, or a loop without readers
    return ThreadedReader(loop, fd, received, ended)


def open_writer(
    loop: asyncio.AbstractEventLoop,
    fd: int,
    writable: Callable[[], None],
    broken: Callable[[OSError], None],
) -> Writer:
    """Return a writer."""
    if sys.platform != "win32" and not _needs_thread(fd):
        try:
            return PolledWriter(loop, fd, writable, broken)
        except (OSError, NotImplementedError):
            pass
    return ThreadedWriter(loop, fd, writable, broken)


def _needs_thread(fd: int) -> bool:
    """Whether polling has no effect, or would make a shared terminal non-blocking."""
    if sys.platform == "win32" or stat.S_ISREG(os.fstat(fd).st_mode):
        return True
    return os.isatty(fd) and os.get_blocking(fd)
