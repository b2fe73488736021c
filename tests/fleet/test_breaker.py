"""The circuit breaker: an agent that cannot start ends the run with one reason, soon."""

from __future__ import annotations

import asyncio

import pytest

from accord_fleet.breaker import AgentBreaker, BreakerSettings
from accord_fleet.errors import AttemptFailed
from accord_fleet.types.agent import AgentSpec
from accord_fleet.types.result import FailedPart, Failure, Result, Status, Times
from fleet.simulated_time import run_simulated

AGENT = AgentSpec(name="a", command=("a",))
OTHER = AgentSpec(name="b", command=("b",))


def result(where: FailedPart | None = None, status: Status = "finished") -> Result:
    failure = None if where is None else Failure(where=where, message="No such program.")
    return Result(task="t", agent="a", status=status, failure=failure, times=Times(started=0.0))


FAILED = result("start", "failed")


def test_broken_agent_does_not_burn_all_tasks() -> None:
    async def run() -> None:
        breaker = AgentBreaker(BreakerSettings(failures=5, probes=3))
        starts = 0
        reasons: set[str] = set()
        queue = iter(range(100_000))

        async def worker() -> None:
            nonlocal starts
            for _ in queue:
                try:
                    await breaker.before(AGENT)
                except AttemptFailed as failed:
                    reasons.add(f"{failed.where}: {failed}")
                    continue
                starts += 1
                await asyncio.sleep(0.1)
                breaker.after(AGENT, FAILED)

        await asyncio.gather(*(worker() for _ in range(8)))
        assert starts == 8 + 4 + 3  # what had begun when it opened, and the probes
        (reason,) = reasons
        assert reason == (
            "start: a was not started: 15 starts in a row have failed, 3 of them after a pause."
            " The last reason: No such program."
        )
        assert breaker.state("a") == "given up"
        assert asyncio.get_running_loop().time() - 1000 == pytest.approx(0.4 + 5 + 15 + 45, abs=0.2)

    run_simulated(run())


def test_one_probe_that_works_lets_all_waiting_attempts_start() -> None:
    async def run() -> None:
        breaker = AgentBreaker(BreakerSettings(failures=2))
        for _ in range(2):
            await breaker.before(AGENT)
            breaker.after(AGENT, FAILED)
        assert breaker.state("a") == "open"
        begun = 0
        working = asyncio.Event()

        async def attempt() -> None:
            nonlocal begun
            await breaker.before(AGENT)
            begun += 1
            await working.wait()
            breaker.after(AGENT, result())

        attempts = [asyncio.ensure_future(attempt()) for _ in range(10)]
        await asyncio.sleep(4.9)
        assert begun == 0
        await asyncio.sleep(1000)
        assert begun == 1
        working.set()
        await asyncio.gather(*attempts)
        assert begun == 10
        assert breaker.state("a") == "closed"

    run_simulated(run())


@pytest.mark.parametrize("status", ["cancelled", "lost"])
def test_probe_that_tells_nothing_is_replaced_by_another_attempt(status: Status) -> None:
    async def run() -> None:
        breaker = AgentBreaker(BreakerSettings(failures=1))
        await breaker.before(AGENT)
        breaker.after(AGENT, FAILED)
        first, second = (asyncio.ensure_future(breaker.before(AGENT)) for _ in range(2))
        await first
        breaker.after(AGENT, result(status=status))
        await second
        breaker.after(AGENT, result())
        assert breaker.state("a") == "closed"

    run_simulated(run())


def test_agents_have_breakers_of_their_own_and_other_failures_do_not_count() -> None:
    async def run() -> None:
        breaker = AgentBreaker(BreakerSettings(failures=1))
        await breaker.before(AGENT)
        breaker.after(AGENT, result("turn", "failed"))
        assert breaker.state("a") == "closed"
        breaker.after(AGENT, FAILED)
        assert breaker.state("a") == "open"
        await breaker.before(OTHER)

    async def whole() -> None:
        await run()
        await asyncio.sleep(60)  # for the timer of the breaker

    run_simulated(whole())
