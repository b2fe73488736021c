"""Waits for what the user types, without keeping anything else waiting."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading

__all__ = ("typed_line",)


async def typed_line() -> str:
    """Return a line from the keyboard; whoever is cancelled leaves the thread to itself."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[bytes] = loop.create_future()

    def settle(data: bytes) -> None:
        if not line.done():
            line.set_result(data)

    def read() -> None:
        # Not through `sys.stdin`: its lock would outlive us.
        try:
            data = os.read(0, 4096)
        except OSError:  # the terminal is gone
            data = b""
        with contextlib.suppress(RuntimeError):  # nobody waits any more
            loop.call_soon_threadsafe(settle, data)

    threading.Thread(target=read, name="accord keyboard", daemon=True).start()
    return (await line).decode("utf-8", "replace")
