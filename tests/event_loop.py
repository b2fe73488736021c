"""Waits for an idle event loop, for events and for the outside world: tests do not sleep."""

from __future__ import annotations

import asyncio
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
