"""Ctrl-C during a run: first no more tasks, then no more turns, then the end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Generator

from accord_fleet.control import Control
from accord_fleet.run_observer import RunStage


@contextlib.contextmanager
def stopped_by_signals(control: Control, on_stage: Callable[[RunStage], None]) -> Generator[None]:
    """Let signals stop a run in the block; enter it in the main thread, in the loop of the run.

    The first SIGINT lets running attempts continue and starts no more. The second one, or SIGTERM,
    cancels running turns. The third one ends this process at once; the guardian of the agents ends
    them, and the dataset has every result that was stored.
    """
    loop = asyncio.get_running_loop()

    def interrupted() -> None:
        if control.is_cancelling:
            _end_now(signal.SIGINT)
        elif control.is_stopping:
            cancel()
        else:
            control.stop()
            on_stage("stopping")

    def cancel() -> None:
        control.cancel()
        on_stage("cancelling")

    def terminated() -> None:
        if control.is_cancelling:
            _end_now(signal.SIGTERM)
        cancel()

    if sys.platform == "win32":  # the event loop has no signal handlers there
        before = signal.signal(
            signal.SIGINT, lambda _number, _frame: loop.call_soon_threadsafe(interrupted)
        )
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
        return
    loop.add_signal_handler(signal.SIGINT, interrupted)
    loop.add_signal_handler(signal.SIGTERM, terminated)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGTERM)


def _end_now(number: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(128 + number)
