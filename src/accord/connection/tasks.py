"""The tasks of one owner: started here, ended here, none left behind unseen."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Coroutine
from typing import Any
from weakref import WeakSet

__all__ = (
    "Tasks",
    "cancel",
    "discard",
    "ends_process",
    "is_being_cancelled",
    "is_dropped",
    "is_stopped",
    "logged",
)

log = logging.getLogger("accord.connection.connection")


_stopped: WeakSet[asyncio.Task[Any]] = WeakSet()


class Tasks:
    """Owns tasks until they are done."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def __contains__(self, task: object) -> bool:
        return task in self._tasks

    def spawn(
        self,
        coroutine: Coroutine[Any, Any, None],
        name: str,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[None]:
        """Start a task."""
        task = self._loop.create_task(coroutine, name=name, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def cancel(self, timeout_s: float) -> None:
        """Cancel all but the caller and wait; name in the log those that do not stop."""
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            cancel(task)
        if tasks:
            _, stubborn = await asyncio.wait(tasks, timeout=timeout_s)
            for task in stubborn:
                log.error("! %s does not stop when cancelled; left behind", task.get_name())
                # Else the end of `asyncio.run` would wait for it, for ever.
                asyncio._unregister_task(task)  # noqa: SLF001  # in asyncio's documentation


def discard(awaitable: Any) -> None:
    """Drop a coroutine that will not be awaited, without the interpreter's warning."""
    close = getattr(awaitable, "close", None)
    if close is not None:
        close()


def cancel(task: asyncio.Task[Any]) -> None:
    """Cancel a task; `is_stopped` is true in it from now on."""
    _stopped.add(task)
    task.cancel()


def is_stopped() -> bool:
    """Return True if `cancel` has cancelled the task that runs, whatever it has raised since.

    `cancelling()` alone does not say that: before Python 3.13 a `TaskGroup` that fails leaves
    it at 1.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0 and task in _stopped


def is_being_cancelled() -> bool:
    """Tell whether a `CancelledError` is meant for the task that runs, not for what it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def ends_process(error: BaseException) -> bool:
    """Tell whether an exception is meant for the program, so that a handler must not keep it."""
    return isinstance(error, KeyboardInterrupt | SystemExit)


def is_dropped(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Tell whether an exception says that the coroutine of this task is thrown away.

    What a handler raises itself may be a `GeneratorExit`, too: then its task runs.
    """
    if not isinstance(error, GeneratorExit):
        return False
    try:
        return task is None or asyncio.current_task() is not task
    except RuntimeError:  # no loop runs any more
        return True


async def logged(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in the background; log what it raises."""
    task = asyncio.current_task()
    try:
        await work
    except asyncio.CancelledError:
        raise
    except BaseException as exc:
        if is_dropped(exc, task):
            raise
        log.exception("! work beyond a handler failed")
        if ends_process(exc):
            raise
