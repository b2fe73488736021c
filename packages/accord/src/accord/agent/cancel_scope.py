"""Blocks that can be cancelled individually, without the task that runs them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from accord.connection.tasks import cancel
from accord.errors import AccordError


class WorkCancelled(AccordError):
    """A tool call or a subagent was cancelled individually; its turn continues."""


class CancelScope:
    """A block of one task that can be cancelled without cancelling the task."""

    def __init__(self) -> None:
        self.cancelled = False
        self._earlier_cancels = 0  # of the task, when the block began
        self._task: asyncio.Task[Any] | None = None

    def enter(self) -> None:
        """Begin the block in the current task."""
        self._task = asyncio.current_task()
        self._earlier_cancels = 0 if self._task is None else self._task.cancelling()

    def cancel(self) -> None:
        """Cancel the block. Has no effect once the block has ended."""
        if self._task is not None and not self.cancelled:
            self.cancelled: bool = True
            cancel(self._task)

    async def leave(self, error: BaseException | None) -> bool:
        """Withdraw the cancel of this block; return whether that cancel ended the block."""
        task, self._task = self._task, None
        if not self.cancelled or task is None:
            return False
        if not isinstance(error, asyncio.CancelledError):
            with suppress(asyncio.CancelledError):  # the block ended before the cancel arrived
                await asyncio.sleep(0)
        return task.uncancel() <= self._earlier_cancels and isinstance(
            error, asyncio.CancelledError
        )
