"""Waits for the lease of a run that may have died."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from accord_fleet.dataset.errors import DatasetInUse

_LOOK_S = 2.0
_T = TypeVar("_T")


async def when_lease_ends(
    open_it: Callable[[], Awaitable[_T]], on_wait: Callable[[str], None]
) -> _T:
    """Open a dataset; if a process that may be dead has its lease, wait until the lease ends.

    `on_wait` gets a line that says so. Raises `DatasetInUse` as soon as the lease is renewed: its
    holder lives.
    """
    first: float | None = None
    while True:
        try:
            return await open_it()
        except DatasetInUse as error:
            if error.until is None or (first is not None and error.until != first):
                raise
            if first is None:
                first = error.until
                on_wait(f"{error}; waiting for its end")
            left = max(0.0, error.until - time.time())
        await asyncio.sleep(min(left, _LOOK_S))
