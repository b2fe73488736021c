"""Waits for tools and servers to stop, but not forever: they are code of the program's user."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Any

log: logging.Logger = logging.getLogger("accord.mcp")

CLOSE_S = 5.0  # then the end of the session is not delayed any longer


async def wait_stopped(tasks: Collection[asyncio.Task[Any]], what: str) -> None:
    """Wait for tasks that were asked to stop; log if they do not: a thread cannot be cancelled."""
    if not tasks:
        return
    _, running = await asyncio.wait(tasks, timeout=CLOSE_S)
    if running:
        log.warning("! %s did not stop within %g s", what, CLOSE_S)
