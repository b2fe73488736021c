"""An event loop with virtual time: no I/O, no threads, and one order of events per seed."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import random
import types
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ("Endless", "SimulatedLoop", "Stuck", "stacks", "waiting_in")

LONGEST_S = 48 * 3600.0  # of virtual time
MOST_ROUNDS = 1_500_000


class Stuck(Exception):
    """Nothing is ready and no timer is due: the waiting tasks wait indefinitely."""


class Endless(Exception):
    """The run exceeds the limit of virtual time or of loop iterations."""


class _Task(asyncio.Task[Any]):
    """A task whose hash does not depend on its address: sets of tasks have a fixed order."""

    def __init__(self, *args: Any, number: int, **kwargs: Any) -> None:
        self._number = number  # before the loop can use the hash
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self._number


class _Future(asyncio.Future[Any]):
    """A future whose hash does not depend on its address."""

    def __init__(self, *, loop: SimulatedLoop, number: int) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs callbacks in the order of asyncio; when idle, the clock jumps to the next timer."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.now = 1000.0
        self.rounds = 0
        self.unhandled: list[dict[str, Any]] = []  # reported by asyncio: lost exceptions
        self._chance = chance
        self._numbers = itertools.count(1)
        self._selector = self  # of `BaseEventLoop`: polled once per iteration
        self._clock_resolution = 1e-9
        self.set_task_factory(self._make_task)  # type: ignore[arg-type]
        self.set_exception_handler(lambda _loop, context: self.unhandled.append(context))

    def time(self) -> float:
        return self.now

    # Required by BaseEventLoop.

    def select(self, timeout: float | None) -> list[Any]:
        self.rounds += 1
        if timeout is None:
            raise Stuck
        if timeout > 0:
            self.now = max(self.now, self._scheduled[0]._when)  # type: ignore[attr-defined]
        if self.rounds > MOST_ROUNDS or self.now > LONGEST_S:
            raise Endless
        return []

    def _process_events(self, events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(loop=self, number=next(self._numbers))

    def _make_task(
        self, _loop: Any, coroutine: Coroutine[Any, Any, Any], **given: Any
    ) -> asyncio.Task[Any]:
        return _Task(coroutine, loop=self, number=next(self._numbers), **given)

    def run_in_executor(  # type: ignore[override]
        self, _executor: Any, function: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run the function in the loop after a delay, since threads have no fixed order."""
        done = self.create_future()
        context = contextvars.copy_context()

        def work() -> None:
            if done.cancelled():
                return
            try:
                done.set_result(context.run(function, *args))
            except BaseException as error:  # noqa: BLE001  # raised where it is awaited
                done.set_exception(error)

        self.call_later(self._chance.choice((0.0, 0.0, 0.001, 0.05)), work)
        return done

    # The end of a run.

    def pending(self) -> list[asyncio.Task[Any]]:
        """Return the tasks that have not ended, oldest first."""
        return sorted(asyncio.all_tasks(self), key=hash)

    def timers(self) -> list[str]:
        """Return the timers that have not fired."""
        return [repr(timer) for timer in self._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]

    def abandon(self) -> None:
        """End the remaining tasks of a failed run."""
        self.set_exception_handler(lambda _loop, _context: None)
        for _ in range(20):
            for task in self.pending():
                task.cancel()
            self.call_later(5.0, self.stop)
            try:
                self.run_forever()
            except (Stuck, Endless):
                self.rounds = 0
                self.now = 1000.0
            if not self.pending():
                break
        self.close()


def waiting_in(loop: SimulatedLoop) -> str:
    """Return the functions of Accord in which the turns and calls of the clients wait."""
    found: set[str] = set()
    for task in loop.pending():
        if task.get_name().startswith(("simulated turn", "simulated actor")):
            inside = [place for place in _places(task.get_coro()) if place.startswith("accord.")]
            found.update(place.rpartition(":")[0] for place in inside[:1])
            found.update(place.rpartition(":")[0] for place in inside[-1:])
    return ", ".join(sorted(found))


def stacks(loop: SimulatedLoop) -> str:
    """Return where each task waits: the chain of coroutines, the innermost last."""
    return "\n".join(f"  {task.get_name()}: {_chain(task.get_coro())}" for task in loop.pending())


def _chain(waiting: Any) -> str:
    return " > ".join(_places(waiting))


def _places(waiting: Any) -> list[str]:
    places: list[str] = []
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "ag_frame", None)
        frame = frame or getattr(waiting, "gi_frame", None)
        if isinstance(frame, types.FrameType):
            module = frame.f_globals.get("__name__", "?")
            places.append(f"{module}.{frame.f_code.co_qualname}:{frame.f_lineno}")
        elif frame is None and not places:
            places.append(repr(waiting))
        waiting = (
            getattr(waiting, "cr_await", None)
            or getattr(waiting, "ag_await", None)
            or getattr(waiting, "gi_yieldfrom", None)
        )
    return places
