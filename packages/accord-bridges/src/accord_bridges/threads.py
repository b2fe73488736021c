"""Runs the blocking code of a framework beside the event loop, so that a cancel always ends it.

`Threads` starts threads that do not keep the process alive, hands what they report to the event
loop in order, holds them up while the client reads slowly, and wakes all of them when the turn
ends. Code that does not come back (a tool that hangs, a model that does not reply) is left behind:
the thread that waits for it goes on at once.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
_Item: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...], "Future[Any] | None"]

_BOUND = 1000  # reports that wait for the event loop before the threads are held up
_POLL_S = 0.05  # between looks at whether an answer has come, at the end of a limit of time
_END_S = 2.0  # that the first thread has to end after a cancel


class Stopped(BaseException):
    """The turn has ended. It does not derive from `Exception`: tools must not catch it."""


class Threads:
    """The threads of one turn.

    `run` is called in the event loop, the other methods in the threads that it starts.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._items: deque[_Item] = deque()
        self._changed = asyncio.Event()
        self._room = threading.Condition()
        self._is_woken = False
        self._waiting: set[Future[Any]] = set()
        self._asking: set[asyncio.Task[Any]] = set()
        self._asking_since: list[float] = []
        self._asked_s = 0.0
        self.is_stopped = False
        """Whether the turn has ended."""

    # In the event loop.

    async def run(self, function: Callable[[], T]) -> T:
        """Return what a function returns that runs in a thread; do meanwhile what it posts.

        If this is cancelled, or what was posted raises, the threads are stopped.
        """
        context = contextvars.copy_context()
        ended: Future[T] = Future()

        ended.add_done_callback(lambda _: self._in_loop(self._changed.set))
        _start(partial(context.run, function), ended)
        try:
            while not ended.done() or self._items:
                await self._changed.wait()
                self._changed.clear()
                await self._handle()
            return ended.result()
        except Stopped:
            raise RuntimeError("the turn has stopped, and its first thread with it") from None
        finally:
            self.stop()
            for task in self._asking:
                task.cancel()
            done = asyncio.wrap_future(ended)
            done.add_done_callback(lambda each: each.cancelled() or each.exception())  # retrieved
            await asyncio.wait([done, *self._asking], timeout=_END_S)
            self.has_ended = ended.done()

    has_ended: bool = True
    """Whether the first thread has ended; if not, it may still change what it works with."""

    async def _handle(self) -> None:
        """Do what was posted, in order."""
        while True:
            with self._room:
                items, self._items = self._items, deque()
                self._is_woken = False
                self._room.notify_all()
            if not items:
                return
            for call, arguments, answer in items:
                if answer is not None:
                    task = asyncio.ensure_future(_answer(call, arguments, answer))
                    self._asking.add(task)
                    task.add_done_callback(self._asking.discard)
                    continue
                result = call(*arguments)
                if inspect.isawaitable(result):
                    await result

    def stop(self) -> None:
        """Wake all threads that wait or report: `Stopped` is raised in them."""
        with self._room:
            self.is_stopped = True
            waiting, self._waiting = self._waiting, set()
            self._items.clear()
            self._room.notify_all()
        for each in waiting:
            _set(each, error=Stopped())

    # In threads.

    def post(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Have the event loop call a function, or a coroutine function, after what was posted.

        Waits while too much is waiting. Raises `Stopped` if the turn has ended.
        """
        self._put((call, arguments, None))

    def ask(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a coroutine function returns that starts after what was posted.

        What is posted later does not wait for it. Raises what it raises, and `Stopped`.
        """
        answer = self._new_wait()
        began = time.monotonic()
        self._asking_since.append(began)
        try:
            self._put((call, arguments, answer))
            return self._result(answer)
        finally:
            self._asking_since.remove(began)
            self._asked_s += time.monotonic() - began

    def work(
        self, function: Callable[..., T], *arguments: Any, timeout_s: float | None = None
    ) -> T:
        """Return what a function returns that may block for ever.

        Raises what it raises, `TimeoutError`, and `Stopped` as soon as the turn has ended; the
        function then runs on, without an effect on the turn. The time in which a thread waits for
        what it has asked does not count.
        """
        answer = self._new_wait()
        _start(partial(contextvars.copy_context().run, function, *arguments), answer)
        return self._result(answer, timeout_s)

    def _new_wait(self) -> Future[Any]:
        answer: Future[Any] = Future()
        with self._room:
            if self.is_stopped:
                raise Stopped
            self._waiting.add(answer)
        return answer

    def _result(self, answer: Future[Any], timeout_s: float | None = None) -> Any:
        asked_s = self._total_asked_s()
        left_s = timeout_s
        try:
            while True:
                try:
                    return answer.result(left_s)
                except TimeoutError:
                    now_s = self._total_asked_s()
                    if answer.done() or now_s <= asked_s:
                        raise
                    left_s, asked_s = max(now_s - asked_s, _POLL_S), now_s
        finally:
            with self._room:
                self._waiting.discard(answer)

    def _total_asked_s(self) -> float:
        since = tuple(self._asking_since)
        return self._asked_s + (time.monotonic() - min(since) if since else 0.0)

    def _put(self, item: _Item) -> None:
        with self._room:
            while len(self._items) >= _BOUND and not self.is_stopped:
                self._room.wait()
            if self.is_stopped:
                raise Stopped
            self._items.append(item)
            if self._is_woken:
                return
            self._is_woken = True
        self._in_loop(self._changed.set)

    def _in_loop(self, call: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            try:
                self._loop.call_soon_threadsafe(call)
            except RuntimeError:  # it was closed meanwhile
                self.stop()


def _start(function: Callable[[], Any], answer: Future[Any]) -> None:
    """Run a function in a thread that ends with the process."""

    def work() -> None:
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001  # raised where the result is waited for
            _set(answer, error=error)
        else:
            _set(answer, result)

    threading.Thread(target=work, name="accord bridge: framework", daemon=True).start()


async def _answer(
    call: Callable[..., Any], arguments: tuple[Any, ...], answer: Future[Any]
) -> None:
    try:
        _set(answer, await call(*arguments))
    except asyncio.CancelledError:
        _set(answer, error=Stopped())
        raise
    except Exception as error:  # noqa: BLE001  # raised in the thread that asks
        _set(answer, error=error)


def _set(answer: Future[Any], result: Any = None, *, error: BaseException | None = None) -> None:
    """Give a result to what waits for it, unless it does not wait any more."""
    try:
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)
    except Exception:  # noqa: BLE001  # `InvalidStateError`: stopped meanwhile
        return
