"""The circuit breaker: an agent that cannot start ends the run with one reason, soon."""

from __future__ import annotations

import asyncio

import pytest

from accord_fleet.breaker import AgentBreaker, BreakerSettings, NodeBreaker
from accord_fleet.types import AgentSpec, AttemptFailed, FailedPart, Failure, Result, Status, Times
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


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_node_on_which_starts_fail_is_held_back_for_longer_each_time() -> None:
    clock, said = Clock(), list[tuple[str, str | None]]()
    nodes = NodeBreaker(clock=clock, on_wait=lambda what, why: said.append((what, why)))
    nodes.update(["n1", "n2"])
    for _ in range(2):
        nodes.failed("n1", "host-1", "No such program.")
    assert nodes.held() == frozenset()
    nodes.failed("n1", "host-1", "No such program.")
    assert nodes.held() == {"n1"}
    assert said == [
        (
            "node host-1",
            "not used for 60 s: 3 starts in a row have failed there;"
            " the last reason: No such program.",
        )
    ]
    clock.now = 60.0
    assert nodes.held() == frozenset()
    assert said[1:] == [("node host-1", None)]
    nodes.failed("n1", "host-1", "No such program.")
    clock.now = 60.0 + 179.0
    assert nodes.held() == {"n1"}
    clock.now = 60.0 + 180.0
    assert nodes.held() == frozenset()
    nodes.succeeded("n1")
    nodes.failed("n1", "host-1", "No such program.")
    assert nodes.held() == frozenset()


def test_failures_with_successes_between_them_hold_no_node_back() -> None:
    nodes = NodeBreaker()
    nodes.update(["n1", "n2"])
    for _ in range(10):
        nodes.failed("n1", "host-1", "x")
        nodes.failed("n1", "host-1", "x")
        nodes.succeeded("n1")
    assert nodes.held() == frozenset()


def test_no_node_is_held_back_if_all_would_be() -> None:
    nodes = NodeBreaker()
    nodes.update(["n1", "n2"])
    for node in ("n1", "n2"):
        for _ in range(3):
            nodes.failed(node, node, "x")
    assert nodes.held() == frozenset()
    nodes.update(["n1", "n2", "n3"])
    assert nodes.held() == {"n1", "n2"}


def test_attempt_is_repeated_only_on_a_node_on_which_it_has_not_failed() -> None:
    nodes = NodeBreaker()
    nodes.update(["n1"])
    assert not nodes.others("n1", ())
    nodes.update(["n1", "n2"])
    assert nodes.others("n1", ())
    assert not nodes.others("n1", ("n2",))


def test_slot_has_always_a_node_that_it_does_not_avoid() -> None:
    nodes = NodeBreaker()
    nodes.update(["n1", "n2"])
    assert nodes.avoided("") == frozenset()
    assert nodes.avoided("n1") == {"n1"}
    for _ in range(3):
        nodes.failed("n1", "host-1", "x")
    assert nodes.avoided("") == {"n1"}
    assert nodes.avoided("n2") == {"n2"}  # rather the node that is held back than none
    nodes.update(["n2"])
    assert nodes.avoided("n2") == frozenset()
    assert nodes.avoided("n1") == frozenset()  # it is gone
