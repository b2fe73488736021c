"""A thread for calls that may hang."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class CallThread:
    """Calls functions one after another, and does not keep the process alive.

    A cluster on this machine ends with the thread that started it (`PR_SET_PDEATHSIG`), so the
    thread runs until `end`.
    """

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, function: Callable[[], T]) -> concurrent.futures.Future[T]:
        """Call the function after those that were submitted before."""
        done: concurrent.futures.Future[T] = concurrent.futures.Future()

        def call() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                done.set_result(function())
            except BaseException as error:  # noqa: BLE001  # the waiting task raises it
                done.set_exception(error)

        self._calls.put(call)
        return done

    async def call(self, function: Callable[[], T], seconds: float, what: str) -> T:
        """Return what the function returns; raise `TimeoutError` when it is late."""
        done = asyncio.wrap_future(self.submit(function))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await done
        raise TimeoutError(f"{what}: not finished after {seconds:g} s")

    def end(self) -> None:
        """End the thread after its calls."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
