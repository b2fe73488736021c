"""A thread for decoding: one task at a time, and the program ends without waiting for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread


class Background:
    """Runs functions in their order; the thread starts with the first one."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._thread: Thread | None = None
        self._is_closed = False

    def submit(self, function: Callable[[], None], then: Callable[[], None]) -> None:
        """Call a function in the thread, and then another one in the event loop."""
        loop = asyncio.get_running_loop()

        def work() -> None:
            function()
            if not (self._is_closed or loop.is_closed()):
                loop.call_soon_threadsafe(then)

        self._work.put(work)
        if self._thread is None:
            # A daemon: an image that takes very long must not keep the program from ending.
            self._thread = Thread(target=self._run, name="accord chat images", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Drop what has not begun."""
        self._is_closed = True
        self._work.put(_nothing)  # wakes the thread

    def _run(self) -> None:
        while not self._is_closed:
            self._work.get()()


def _nothing() -> None:
    pass
