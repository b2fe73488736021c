"""Conditions of every attack: no traceback is logged, and no task keeps running."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from accord.errors import AccordError

__all__ = ("LONGEST_S", "watched")

LONGEST_S = 30.0  # time limit for any single step


class _Keeper(logging.Handler):
    """Keeps log records with a traceback: internal errors, which a peer must not cause."""

    def __init__(self) -> None:
        super().__init__()
        self.mistakes: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not record.exc_info or record.levelno < logging.WARNING:
            return
        # A violation by the peer is not an internal error, wherever it is logged.
        if not isinstance(record.exc_info[1], AccordError):
            self.mistakes.append(logging.Formatter().format(record))


@asynccontextmanager
async def watched(*, server_stays: bool = False) -> AsyncGenerator[None]:
    """Fail if the block logs a traceback, loses an exception, or leaves a task running.

    `server_stays`: a server waits for clients whose connection was cut.
    """
    loop = asyncio.get_running_loop()
    lost: list[str] = []
    keeper = _Keeper()
    logger = logging.getLogger("accord")
    propagates = logger.propagate
    before = asyncio.all_tasks()

    def lose(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if server_stays and isinstance(context.get("exception"), asyncio.CancelledError):
            return  # of a stream of the tests' own server or proxy, which is being closed
        lost.append(f"{context.get('message')}: {context.get('exception')!r}")

    loop.set_exception_handler(lose)
    logger.addHandler(keeper)
    logger.propagate = False
    try:
        async with asyncio.timeout(LONGEST_S):
            yield
        left = [task for task in asyncio.all_tasks() - before if not task.done()]
        if server_stays:
            left = [task for task in left if task.get_name() != "accord serve a connection"]
        if left:
            # Scheduled work can end without help.
            await asyncio.wait(left, timeout=1.0)
            left = [task for task in left if not task.done()]
        assert not left, f"left running: {left}"
    finally:
        logger.removeHandler(keeper)
        logger.propagate = propagates
        loop.set_exception_handler(None)
    assert not keeper.mistakes, "\n".join(keeper.mistakes)
    assert not lost, "\n".join(lost)
