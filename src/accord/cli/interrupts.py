"""What Ctrl-C does in `accord ask`: it cancels the turn, and a second one quits."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from accord.errors import AccordError

if TYPE_CHECKING:
    from accord.cli.screen import LazyView
    from accord.client.turn import ClientTurn

__all__ = ("Interrupts",)

CANCEL_S = 10.0  # for the agent to end a turn that was cancelled


class Interrupts:
    """While entered, it gets each Ctrl-C.

    One that declines what the user is asked does nothing else. During a turn the first one cancels
    the turn. Any other one quits, as does an agent that does not end the turn in time.
    """

    def __init__(self, screen: LazyView, shorten_stop: Callable[[], None]) -> None:
        self.turn: ClientTurn | None = None  # the one that runs
        self._screen = screen
        self._shorten_stop = shorten_stop  # called before the task is cancelled
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._cancelling: asyncio.Task[None] | None = None
        self._previous_handler: Any = None

    def __enter__(self) -> Interrupts:
        self._previous_handler = signal.getsignal(signal.SIGINT)
        try:
            # It wakes the loop, too: a handler alone is not run while the loop waits for others.
            self._loop.add_signal_handler(signal.SIGINT, self._on_interrupt)
        except (NotImplementedError, ValueError, RuntimeError):
            # A loop of Windows, or another thread than the main one, which no signal reaches.
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
        if self._cancelling is None and self._screen.get().decline_question():
            return
        if self.turn is None or self._cancelling is not None:
            self._quit()
        else:
            self._screen.get().show_cancelling()
            self._cancelling = self._loop.create_task(self._cancel(self.turn), name="accord cancel")

    def _quit(self) -> None:
        if self._task is not None:
            self._shorten_stop()
            self._screen.get().user_quit(self.turn)
            self._task.cancel()

    async def _cancel(self, turn: ClientTurn) -> None:
        with contextlib.suppress(AccordError, TimeoutError):  # the turn tells of it
            async with asyncio.timeout(CANCEL_S):
                await turn.cancel(timeout_s=3 * CANCEL_S)  # quits before that
        await asyncio.sleep(CANCEL_S)
        self._screen.get().show_warning(
            f"The agent has not ended the turn within {CANCEL_S:g} seconds."
        )
        self._quit()
