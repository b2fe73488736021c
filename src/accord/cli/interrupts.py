"""What Ctrl-C does during a turn of `accord ask`."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from accord.errors import AccordError

if TYPE_CHECKING:
    from accord.client.turn import ClientTurn

__all__ = ("Interrupts",)


class Interrupts:
    """While entered: the first Ctrl-C cancels the turn, the second the task.

    One that declines what the user is asked does neither.
    """

    def __init__(self, turn: ClientTurn, decline: Callable[[], bool]) -> None:
        self._turn = turn
        self._decline = decline
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._cancelling: asyncio.Task[None] | None = None
        self._before: Any = None

    def __enter__(self) -> None:
        self._before = signal.getsignal(signal.SIGINT)
        try:
            # It wakes the loop, too: a handler alone is not run while the loop waits for others.
            self._loop.add_signal_handler(signal.SIGINT, self._stop)
        except NotImplementedError:  # by loops of Windows
            signal.signal(signal.SIGINT, self._interrupted)

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(NotImplementedError):
            self._loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, self._before)
        if self._cancelling is not None:
            self._cancelling.cancel()

    def _interrupted(self, _number: int, _frame: object) -> None:
        self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        if self._decline():
            return
        if self._cancelling is None:
            self._cancelling = self._loop.create_task(self._cancel(), name="accord cancel")
        elif self._task is not None:
            self._task.cancel()

    async def _cancel(self) -> None:
        with contextlib.suppress(AccordError):  # the turn tells of it
            await self._turn.cancel()
