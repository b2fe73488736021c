"""Threads of frameworks: the order of what they report, their holding up, and their end."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from contextlib import suppress
from typing import Any

import pytest

from accord_bridges import threads as threads_module
from accord_bridges.threads import Stopped, Threads

BOUND = threads_module._BOUND
place: contextvars.ContextVar[str] = contextvars.ContextVar("place", default="")


async def test_reports_arrive_in_order_and_the_result_after_them() -> None:
    seen: list[Any] = []
    threads = Threads()

    async def note(value: Any) -> None:
        await asyncio.sleep(0)
        seen.append(value)

    def work() -> str:
        for number in range(3 * BOUND):
            threads.post(note if number % 2 else seen.append, number)
        return "done"

    assert await threads.run(work) == "done"
    assert seen == list(range(3 * BOUND))


async def test_a_thread_is_held_up_while_the_client_reads_slowly() -> None:
    threads = Threads()
    go_on = asyncio.Event()
    posted = [0]
    full = threading.Event()

    async def slow(_: int) -> None:
        await go_on.wait()

    def work() -> None:
        for number in range(5 * BOUND):
            if number == 2 * BOUND + 2:
                full.set()  # never, before `go_on`
            threads.post(slow, number)
            posted[0] += 1

    running = asyncio.create_task(threads.run(work))
    assert not await asyncio.to_thread(full.wait, 0.3)
    assert BOUND <= posted[0] <= 2 * BOUND + 1
    go_on.set()
    async with asyncio.timeout(10):
        await running
    assert posted[0] == 5 * BOUND


async def test_a_cancel_wakes_what_waits_and_leaves_what_hangs() -> None:
    threads = Threads()
    hangs = threading.Event()
    asked = asyncio.Event()
    ends: list[str] = []

    async def never() -> None:
        asked.set()
        await asyncio.get_running_loop().create_future()

    def waits(how: Any) -> None:
        try:
            how()
        except Stopped:
            ends.append("stopped")
            raise

    def asks() -> None:
        with suppress(Stopped):  # else it is reported as an error of the thread, maybe later
            waits(lambda: threads.ask(never))

    def work() -> None:
        threading.Thread(target=asks, daemon=True).start()
        waits(lambda: threads.work(hangs.wait))

    running = asyncio.create_task(threads.run(work))
    try:
        async with asyncio.timeout(5):
            await asked.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        assert threads.has_ended, "the first thread has not waited for what hangs"
        with pytest.raises(Stopped):
            threads.post(ends.append, "late")
        with pytest.raises(Stopped):
            threads.work(ends.append, "late")
    finally:
        hangs.set()
    assert ends.count("late") == 0


async def test_a_first_thread_that_does_not_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "_END_S", 0.05)
    threads = Threads()
    began, hangs = asyncio.Event(), threading.Event()

    def work() -> None:
        threads.post(began.set)
        hangs.wait()

    running = asyncio.create_task(threads.run(work))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not threads.has_ended
    hangs.set()


async def test_errors_are_raised_where_their_results_are_waited_for() -> None:
    threads = Threads()

    async def fails() -> None:
        raise LookupError("asked")

    def breaks() -> None:
        raise ArithmeticError("worked")

    def work() -> None:
        with pytest.raises(LookupError, match="asked"):
            threads.ask(fails)
        with pytest.raises(ArithmeticError, match="worked"):
            threads.work(breaks)
        raise ValueError("ended")

    with pytest.raises(ValueError, match="ended"):
        await threads.run(work)

    threads = Threads()
    with pytest.raises(LookupError, match="asked"):
        await threads.run(lambda: [threads.post(fails) for _ in range(BOUND)])
    assert threads.is_stopped


async def test_a_limit_of_time_does_not_count_what_is_asked() -> None:
    threads = Threads()

    async def answer() -> str:
        await asyncio.to_thread(threading.Event().wait, 0.3)  # longer than the limit
        return "yes"

    def slow() -> str:
        return threads.ask(answer)

    def work() -> str:
        with pytest.raises(TimeoutError):
            threads.work(threading.Event().wait, timeout_s=0.05)
        return threads.work(slow, timeout_s=0.1)

    async with asyncio.timeout(5):
        assert await threads.run(work) == "yes"


async def test_threads_have_the_context_of_the_turn() -> None:
    place.set("turn")
    threads = Threads()
    assert await threads.run(lambda: threads.work(place.get)) == "turn"
