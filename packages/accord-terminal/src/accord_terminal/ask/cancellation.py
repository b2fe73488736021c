"""Cancels the turn of `accord ask`: on Ctrl-C, and after the time of `--timeout`."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from accord.errors import AccordError

if TYPE_CHECKING:
    from accord.client.turn import ClientTurn
    from accord_terminal.ask.views import LazyView


CANCEL_S = 10.0  # for the agent to end a turn that was cancelled


class Interrupts:
    """Handles each Ctrl-C inside the block: the first cancels the turn, the second quits.

    If a form or URL is open, Ctrl-C only declines it. During a turn, the first Ctrl-C cancels the
    turn. Any other Ctrl-C quits, and so does an agent that does not end a cancelled turn in time.
    """

    def __init__(self, view: LazyView, shorten_stop: Callable[[], None]) -> None:
        self.turn: ClientTurn | None = None  # the running one
        self._view = view
        self._shorten_stop = shorten_stop  # called before the task is cancelled
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._cancelling: asyncio.Task[None] | None = None
        self._previous_handler: Any = None

    @property
    def has_cancelled(self) -> bool:
        """Whether the user has cancelled the turn."""
        return self._cancelling is not None

    def __enter__(self) -> Interrupts:
        self._previous_handler = signal.getsignal(signal.SIGINT)
        try:
            # This also wakes the loop; a plain handler would not run while the loop waits.
            self._loop.add_signal_handler(signal.SIGINT, self._on_interrupt)
        except (NotImplementedError, ValueError, RuntimeError):
            # On Windows, or in a thread that receives no signals.
            with contextlib.suppress(ValueError):
                signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(NotImplementedError):
            self._loop.remove_signal_handler(signal.SIGINT)
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGINT, self._previous_handler)
        if self._cancelling is not None:
            self._cancelling.cancel()

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._loop.call_soon_threadsafe(self._on_interrupt)

    def _on_interrupt(self) -> None:
        if self._cancelling is None and self._view.decline_question():
            return
        if self.turn is None or self._cancelling is not None:
            self._quit()
        else:
            self._view.get().show_cancelling()
            self._cancelling = self._loop.create_task(self._cancel(self.turn), name="accord cancel")

    def _quit(self) -> None:
        if self._task is not None:
            self._shorten_stop()
            self._view.get().user_quit(self.turn)
            self._task.cancel()

    async def _cancel(self, turn: ClientTurn) -> None:
        with contextlib.suppress(AccordError, TimeoutError):  # the turn reports it
            async with asyncio.timeout(CANCEL_S):
                await turn.cancel(timeout_s=3 * CANCEL_S)  # `_quit` comes earlier
        await asyncio.sleep(CANCEL_S)
        self._view.get().show_warning(
            f"The agent has not ended the turn within {CANCEL_S:g} seconds."
        )
        self._quit()


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
