"""Waits until an event loop is idle, so that tests do not sleep or count iterations."""

from __future__ import annotations

import asyncio
from collections.abc import Sized
from weakref import WeakKeyDictionary

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
