"""Runs an agent's program: whoever ends it by a signal leaves none of its commands behind."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine
from typing import Any

__all__ = ("run",)


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run it to its end; SIGTERM and SIGHUP cancel it first, a second one ends it at once.

    Signals that are handled or ignored already are left alone.
    """
    got: list[int] = []

    async def main() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def stop(number: int, _frame: object) -> None:
            got.append(number)
            signal.signal(number, signal.SIG_DFL)
            loop.call_soon_threadsafe(task.cancel)

        for number in _ours():
            signal.signal(number, stop)
        await work

    try:
        asyncio.run(main())
    except asyncio.CancelledError:
        if not got:
            raise
    if got:
        signal.raise_signal(got[0])


def _ours() -> list[int]:
    if threading.current_thread() is not threading.main_thread():
        return []
    known = (getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP"))
    return [n for n in known if n is not None and signal.getsignal(n) is signal.SIG_DFL]
