"""Short calls run on the event loop until one of them is slow."""

from __future__ import annotations

import threading

import pytest

from accord.local.command import MAX_RETRY_S, MIN_RETRY_S, SLOW_S, InPlace


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def work(self, seconds: float) -> bool:
        """Take some time; return whether the call blocked the event loop."""
        self.now += seconds
        return threading.current_thread() is threading.main_thread()


async def test_calls_run_in_place_until_one_is_slow() -> None:
    clock = Clock()
    calls = InPlace(clock)
    assert [await calls.call(clock.work, SLOW_S / 2) for _ in range(3)] == [True] * 3
    assert await calls.call(clock.work, 2 * SLOW_S)
    assert [await calls.call(clock.work, seconds=s) for s in (0.0, 1.0)] == [False] * 2
    clock.now += MIN_RETRY_S
    assert await calls.call(clock.work, 0.0)


async def test_every_further_slow_call_doubles_the_time_until_the_next_one_in_place() -> None:
    clock = Clock()
    calls = InPlace(clock)
    waits: list[float] = []
    for _ in range(12):
        assert await calls.call(clock.work, 2 * SLOW_S)
        ended = clock.now
        while calls.is_slow:
            clock.now += MIN_RETRY_S / 2
        waits.append(clock.now - ended)
    doubling = [MIN_RETRY_S * 2**i for i in range(11)]
    assert waits == pytest.approx([*doubling, MAX_RETRY_S], abs=MIN_RETRY_S)
    for _ in range(12):
        assert await calls.call(clock.work, 0.0)  # a fast one halves it
    assert await calls.call(clock.work, 2 * SLOW_S)
    clock.now += MIN_RETRY_S
    assert not calls.is_slow


async def test_slow_failure_counts_too() -> None:
    clock = Clock()
    calls = InPlace(clock)

    def fail() -> None:
        clock.work(1.0)
        raise FileNotFoundError

    with pytest.raises(FileNotFoundError):
        await calls.call(fail)
    assert not await calls.call(clock.work, 0.0)
