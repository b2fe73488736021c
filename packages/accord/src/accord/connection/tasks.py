"""The tasks of one owner, which cancels all of them at its end."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar
from weakref import WeakSet

log: logging.Logger = logging.getLogger("accord.connection.connection")


T = TypeVar("T")

_stopped: WeakSet[asyncio.Task[Any]] = WeakSet()


class Tasks:
    """A set of tasks that are not done."""

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
        """Cancel all tasks except the caller's and wait; log those that do not stop."""
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            cancel(task)
        if tasks:
            _, stubborn = await asyncio.wait(tasks, timeout=timeout_s)
            for task in stubborn:
                log.error("! %s does not stop when cancelled; abandoned", task.get_name())
                # Otherwise `asyncio.run` would wait for it indefinitely at its end.
                asyncio._unregister_task(task)  # noqa: SLF001  # documented by asyncio


def discard(awaitable: Any) -> None:
    """Close a coroutine that will not be awaited, which avoids the interpreter's warning."""
    close = getattr(awaitable, "close", None)
    if close is not None:
        close()


def discard_with(task: asyncio.Future[Any], *awaitables: object) -> None:
    """Discard what a task awaits when the task ends: it may be cancelled before its first step.

    Then the coroutine of the task is closed, but not the coroutines that it was given.
    """

    def ended(_: asyncio.Future[Any]) -> None:
        for awaitable in awaitables:
            discard(awaitable)

    task.add_done_callback(ended)


class Owning(Generic[T]):
    """A coroutine with the awaitables that it was given, which are discarded with it.

    A coroutine that is closed before its first step does not close what it was given.
    """

    __slots__ = ("_given", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], *given: object) -> None:
        self._work = work
        self._given = given

    def __await__(self) -> Generator[Any, Any, T]:
        return self._work.__await__()

    def close(self) -> None:
        """Close the coroutine, which will not be awaited."""
        discard(self._work)
        for awaitable in self._given:
            discard(awaitable)


def run_at_once(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that waits for nothing, without a task."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    work.close()
    raise RuntimeError(f"{work!r} waits for something, so it needs a task")


def cancel(task: asyncio.Task[Any]) -> None:
    """Cancel a task; `is_stopped` returns True in it from now on."""
    _stopped.add(task)
    task.cancel()


def is_stopped() -> bool:
    """Return True if `cancel` has cancelled the running task, whatever it has raised since.

    `cancelling()` is not enough: before Python 3.13, a `TaskGroup` that fails leaves it at 1.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0 and task in _stopped


def is_being_cancelled() -> bool:
    """Return True if a `CancelledError` is meant for the running task, not for what it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def ends_process(error: BaseException) -> bool:
    """Return True if an exception ends the program, so that it must propagate."""
    return isinstance(error, KeyboardInterrupt | SystemExit)


def is_dropped(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Return True if an exception shows that the coroutine of this task was discarded.

    A handler may also raise `GeneratorExit` itself; then its task is running.
    """
    if not isinstance(error, GeneratorExit):
        return False
    try:
        return task is None or asyncio.current_task() is not task
    except RuntimeError:  # the event loop has stopped
        return True


async def logged(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in the background and log its exceptions."""
    task = asyncio.current_task()
    try:
        await work
    except asyncio.CancelledError:
        raise
    except BaseException as exc:
        if is_dropped(exc, task):
            raise
        log.exception("! background work failed")
        if ends_process(exc):
            raise
