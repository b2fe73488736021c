"""The limiter: requests and tokens per minute, pauses, and callers that take turns."""

from __future__ import annotations

import asyncio
import pickle

import pytest

from accord_fleet.gateway.limiter import KeyLimits, LocalLimiter
from fleet.simulated_time import run_simulated


def now() -> float:
    return asyncio.get_running_loop().time() - 1000.0


def test_requests_per_minute_hold_over_an_hour() -> None:
    async def run() -> None:
        limiter = LocalLimiter({"k": KeyLimits(requests_per_minute=60)})
        times: list[float] = []

        async def worker(name: str) -> None:
            for _ in range(450):
                await limiter.acquire("k", name, 0)
                times.append(now())

        await asyncio.gather(*map(worker, "abcdefgh"))
        assert len(times) == 3600
        assert times[-1] == pytest.approx(3600 - 6, abs=0.1)  # full speed, without more
        for first, last in zip(times, times[66:], strict=False):
            assert last - first >= 59.99

    run_simulated(run())


def test_tokens_are_corrected_after_the_response() -> None:
    async def run() -> None:
        limiter = LocalLimiter({"k": KeyLimits(tokens_per_minute=6000)})  # 100 in a second
        await limiter.acquire("k", "a", 600)
        await limiter.settle("k", 400)  # it used 1000
        await limiter.acquire("k", "a", 100)
        assert now() == pytest.approx(5.0)
        await limiter.settle("k", -100)  # it used nothing
        await limiter.acquire("k", "a", 100)
        assert now() == pytest.approx(5.0)
        await limiter.acquire("k", "a", 60_000)  # more than fits: when the bucket is full
        assert now() == pytest.approx(11.0)
        await limiter.acquire("k", "a", 1)
        assert now() == pytest.approx(11.0 + 594.0 + 0.01)

    run_simulated(run())


def test_attempts_take_turns() -> None:
    async def run() -> None:
        limiter = LocalLimiter({"k": KeyLimits(requests_per_minute=60)})
        order: list[str] = []

        async def request(name: str) -> None:
            await limiter.acquire("k", name, 0)
            order.append(name)

        greedy = [asyncio.ensure_future(request("greedy")) for _ in range(100)]
        await asyncio.sleep(0)
        modest = [asyncio.ensure_future(request("modest")) for _ in range(3)]
        await asyncio.gather(*greedy, *modest)
        first = order.index("modest")
        assert first <= 8
        assert order[first : first + 5].count("modest") == 3

    run_simulated(run())


def test_pause_holds_all_callers_of_a_key_and_no_other() -> None:
    async def run() -> None:
        limiter = LocalLimiter({})
        await limiter.pause("k", 30)
        await limiter.pause("k", 10)  # a shorter one does not end it
        await limiter.acquire("other", "a", 1)
        assert now() == 0
        await asyncio.gather(*(limiter.acquire("k", name, 1) for name in "abc"))
        assert now() == pytest.approx(30)

    run_simulated(run())


def test_cancelled_caller_takes_nothing() -> None:
    async def run() -> None:
        limiter = LocalLimiter({"k": KeyLimits(requests_per_minute=1)})
        await limiter.acquire("k", "a", 0)
        leaving = asyncio.ensure_future(limiter.acquire("k", "a", 0))
        staying = asyncio.ensure_future(limiter.acquire("k", "b", 0))
        await asyncio.sleep(1)
        leaving.cancel()
        await staying
        assert now() == pytest.approx(60)
        assert leaving.cancelled()

    run_simulated(run())


def test_limits_can_be_pickled_for_an_actor() -> None:
    limits = {"k": KeyLimits(requests_per_minute=1)}
    assert pickle.loads(pickle.dumps(limits)) == limits
    LocalLimiter(limits)  # without an event loop
