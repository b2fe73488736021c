"""Reads lines from the keyboard without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading

if sys.platform != "win32":
    import termios


class _Keyboard:
    """Reads in one thread at a time; two threads would share the input."""

    def __init__(self) -> None:
        self.pending_line: asyncio.Future[bytes] | None = None
        self.is_reading = False

    def start(self, line: asyncio.Future[bytes]) -> None:
        self.pending_line = line
        if self.is_reading:
            return  # the thread of a cancelled question is still reading; it reads for this one
        self.is_reading = True
        loop = asyncio.get_running_loop()

        def read() -> None:
            # Not `sys.stdin`: the daemon thread would hold its lock at exit.
            try:
                data = os.read(0, 4096)
            except OSError:  # the terminal was closed
                data = b""
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._deliver, data)

        threading.Thread(target=read, name="accord keyboard", daemon=True).start()

    def _deliver(self, data: bytes) -> None:
        self.is_reading = False
        if self.pending_line is not None and not self.pending_line.done():
            self.pending_line.set_result(data)


_keyboard = _Keyboard()


async def read_line() -> str:
    """Return a line from the keyboard with its line end; empty at the end of the input."""
    line: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    _keyboard.start(line)
    return (await line).decode("utf-8", "replace")


def discard_typed() -> None:
    """Discard what was typed before a question was shown."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(termios.error):  # not a terminal
        termios.tcflush(0, termios.TCIFLUSH)
