"""Waits for what the user types, without keeping anything else waiting."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading

__all__ = ("discard_typed", "read_line")


class _Keyboard:
    """One thread reads at a time: two of them would share what is typed."""

    def __init__(self) -> None:
        self.pending_line: asyncio.Future[bytes] | None = None
        self.is_reading = False

    def start(self, line: asyncio.Future[bytes]) -> None:
        self.pending_line = line
        if self.is_reading:
            return  # somebody was cancelled and has left a thread, which reads for us now
        self.is_reading = True
        loop = asyncio.get_running_loop()

        def read() -> None:
            # Not through `sys.stdin`: its lock would outlive us.
            try:
                data = os.read(0, 4096)
            except OSError:  # the terminal is gone
                data = b""
            with contextlib.suppress(RuntimeError):  # nobody waits any more
                loop.call_soon_threadsafe(self._deliver, data)

        threading.Thread(target=read, name="accord keyboard", daemon=True).start()

    def _deliver(self, data: bytes) -> None:
        self.is_reading = False
        if self.pending_line is not None and not self.pending_line.done():
            self.pending_line.set_result(data)


_keyboard = _Keyboard()


async def read_line() -> str:
    """Return a line from the keyboard, with its end; nothing when no more can be typed."""
    line: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    _keyboard.start(line)
    return (await line).decode("utf-8", "replace")


def discard_typed() -> None:
    """Forget what was typed before a question was there to be seen: it is no answer to it."""
    try:
        import termios
    except ModuleNotFoundError:  # on Windows
        return
    with contextlib.suppress(termios.error):  # it is no terminal
        termios.tcflush(0, termios.TCIFLUSH)
