"""Runs a program; if a signal ends it, its child processes are stopped. Kills one of asyncio."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine
from contextlib import suppress
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


_DRAIN_S = 2.0  # for what a killed process has written; a child of it may keep the pipe open


async def kill_process(process: asyncio.subprocess.Process) -> None:
    """Kill a process of asyncio that has not ended, and wait for its end.

    Its output is read to the end and dropped: before Python 3.13, `wait` alone waits for output
    that is not read, and does not return if there is more than its buffer takes.
    """
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.kill()
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_S):
            await process.communicate()
