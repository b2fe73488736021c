"""Waits until an event loop is idle, so that tests need neither sleeps nor counted rounds."""

from __future__ import annotations

import asyncio
from collections.abc import Sized
from weakref import WeakKeyDictionary

# A loop that is still busy after this many rounds has a task that never waits.
MAX_ROUNDS = 100_000
# For loops that do not show what is ready to run, such as uvloop.
BLIND_ROUNDS = 100


# How many tasks wait in each loop for it to be idle.
_waiting: WeakKeyDictionary[asyncio.AbstractEventLoop, int] = WeakKeyDictionary()


async def drain_event_loop() -> None:
    """Return when nothing can run before something from outside happens.

    That is: no callback is ready, no timer is due, and no file descriptor of the loop is readable
    or writable. Threads and other processes do not count.
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
    # what was added since this task last ran. One idle round is not enough: a callback in that
    # round may have made a descriptor readable.
    idle_rounds = 0
    for _ in range(MAX_ROUNDS):
        await asyncio.sleep(0)
        # The other tasks that wait for the same are always ready.
        idle_rounds = idle_rounds + 1 if len(ready) < _waiting[loop] else 0
        if idle_rounds == 2:
            return
    raise AssertionError(f"the event loop is still busy after {MAX_ROUNDS} rounds: {ready}")
