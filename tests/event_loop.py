"""Waits for an idle event loop, for events and for the outside world: tests do not sleep."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Sized
from typing import Any
from weakref import WeakKeyDictionary

LIMIT_S = 20.0
POLL_S = 0.01
# A loop that is still busy after this many iterations has a task that never waits.
MAX_ROUNDS = 100_000
# For loops without a list of ready callbacks, such as uvloop.
BLIND_ROUNDS = 100


# The number of tasks per loop that wait for it to be idle.
_waiting: WeakKeyDictionary[asyncio.AbstractEventLoop, int] = WeakKeyDictionary()


async def drain_event_loop() -> None:
    """Return when the loop is idle until an external event.

    Then no callback is ready, no timer is due, and no file descriptor of the loop is readable or
    writable. Threads and other processes do not count.
    """
    loop = asyncio.get_running_loop()
    ready = getattr(loop, "_ready", None)
    if ready is None:
        for _ in range(BLIND_ROUNDS):
            await asyncio.sleep(0)
        return
    _waiting[loop] = _waiting.get(loop, 0) + 1
    try:
        await _drain(ready, loop)
    finally:
        _waiting[loop] -= 1


async def _drain(ready: Sized, loop: asyncio.AbstractEventLoop) -> None:
    # When this task resumes, the loop has just polled its descriptors and timers, and `ready` has
    # what was added since this task last ran. One idle iteration is not enough: a callback in it
    # may have made a descriptor readable.
    idle_rounds = 0
    for _ in range(MAX_ROUNDS):
        await asyncio.sleep(0)
        # Other tasks that wait in this function are always ready.
        idle_rounds = idle_rounds + 1 if len(ready) < _waiting[loop] else 0
        if idle_rounds == 2:
            return
    raise AssertionError(f"the event loop is still busy after {MAX_ROUNDS} rounds: {ready}")


class Changing:
    """What a test waits for: `changed` is set after each change."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Wait until the condition is true, for at most `LIMIT_S`; return its value."""
        async with asyncio.timeout(LIMIT_S):
            while not (found := condition()):
                self.changed.clear()
                await self.changed.wait()
        return found


async def poll_until(condition: Callable[[], Any]) -> None:
    """Wait until a condition is true, for at most `LIMIT_S`.

    Only for what tells nobody when it changes: files, ports, other processes, and state of a
    server that has no event.
    """
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(POLL_S)


class SkippingLoop(asyncio.SelectorEventLoop):
    """Does not wait for timers: when nothing else can happen, its clock jumps to the next one.

    That is so if the loop watches no file descriptor but its own wake-up pipe, and no thread was
    started since the loop was made, except workers of its executor that have nothing to do.
    Otherwise it waits in real time. Only `loop.time()` jumps, not `time.monotonic()`.
    """

    def __init__(self) -> None:
        self._skipped_s = 0.0
        self._in_threads = 0
        self._threads_before = set(threading.enumerate())
        super().__init__(_SkippingSelector(self))
        self._own_descriptors = len(self._selector.get_map())  # type: ignore[attr-defined]

    def time(self) -> float:
        return super().time() + self._skipped_s

    def skip(self, duration_s: float) -> bool:
        """Move the clock if nothing but a timer can wake the loop; return whether it moved."""
        others = set(threading.enumerate()) - self._threads_before
        workers: set[threading.Thread] = getattr(self._default_executor, "_threads", set())  # type: ignore[attr-defined]
        descriptors = len(self._selector.get_map())  # type: ignore[attr-defined]
        if self._in_threads or others - workers or descriptors > self._own_descriptors:
            return False
        self._skipped_s += duration_s
        return True

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, function: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        running = super().run_in_executor(executor, function, *args)
        self._in_threads += 1
        running.add_done_callback(self._left_thread)
        return running

    def _left_thread(self, _: asyncio.Future[Any]) -> None:
        self._in_threads -= 1


class _SkippingSelector(selectors.DefaultSelector):
    def __init__(self, loop: SkippingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        found = super().select(0)
        if found or self._loop.skip(timeout):
            return found
        return super().select(timeout)
