"""Runs a program; if a signal ends it, its child processes are stopped."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_program(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine; SIGTERM and SIGHUP cancel it, a second signal ends the process.

    Signals that the program already handles or ignores are not changed.
    """
    got: list[int] = []
    ours = _default_signals()

    async def main() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def stop(number: int, _frame: object) -> None:
            got.append(number)
            signal.signal(number, signal.SIG_DFL)
            loop.call_soon_threadsafe(task.cancel)

        for number in ours:
            signal.signal(number, stop)
        return await work

    try:
        return asyncio.run(main())
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
        if got:
            signal.raise_signal(got[0])


def _default_signals() -> list[int]:
    if threading.current_thread() is not threading.main_thread():
        return []
    known = (getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP"))
    return [n for n in known if n is not None and signal.getsignal(n) is signal.SIG_DFL]
