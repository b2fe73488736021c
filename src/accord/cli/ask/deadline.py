"""Cancels a turn of `accord ask` that takes longer than `--timeout`."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from accord.errors import AccordError

if TYPE_CHECKING:
    from accord.client.turn import ClientTurn

__all__ = ("Deadline",)

CANCEL_S = 10.0  # for the agent to end a turn after it was cancelled


class _TurnTimeout(AccordError):
    """The turn took longer than `--timeout`, and the agent did not end it."""


class Deadline:
    """Inside the block: cancels the turn after this time, and then, if necessary, the task."""

    def __init__(self, turn: ClientTurn, timeout_s: float | None) -> None:
        self.has_expired = False
        self._turn = turn
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._timer: asyncio.TimerHandle | None = None
        self._cancelling: asyncio.Task[None] | None = None
        self._is_stopped = False

    def __enter__(self) -> Deadline:
        if self._timeout_s is not None:
            self._timer = self._loop.call_later(self._timeout_s, self._expire)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._cancelling is not None:
            self._cancelling.cancel()
        if self._is_stopped and kind is asyncio.CancelledError:
            if self._task is not None:
                self._task.uncancel()
            raise _TurnTimeout(
                f"The agent did not end the turn within {CANCEL_S:g} seconds "
                "after it was cancelled "
                f"(--timeout {self._timeout_s:g})"
            )

    def _expire(self) -> None:
        self.has_expired: bool = True
        self._cancelling = self._loop.create_task(self._cancel(), name="accord timeout")
        self._timer = self._loop.call_later(CANCEL_S, self._stop)

    def _stop(self) -> None:
        if self._task is not None:
            self._is_stopped = True
            self._task.cancel()

    async def _cancel(self) -> None:
        with contextlib.suppress(AccordError):  # the turn reports it
            await self._turn.cancel(timeout_s=2 * CANCEL_S)  # `_stop` comes earlier
