"""What waits is said: a limit of a key, and an agent that is held back."""

from __future__ import annotations

import asyncio
import io
import logging
import re
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from accord_fleet.agents import attempt_name, named_warnings, working_for
from accord_fleet.breaker import AgentBreaker, BreakerSettings
from accord_fleet.gateway.limiter import KeyLimits, KeyWait, LocalLimiter
from accord_fleet.gateway.providers import Provider
from accord_fleet.machine import open_guards
from accord_fleet.plan import RunSettings
from accord_fleet.progress import LineProgress
from accord_fleet.run import Control
from accord_fleet.types import AgentSpec
from fleet.running import outcomes, raw, task
from fleet.simulated_time import run_simulated
from fleet.test_breaker import AGENT, FAILED, result

SECRET = "a-key-that-nobody-may-see"
PROVIDER = Provider(
    name="p", api="anthropic", base_url="http://127.0.0.1:9", key="P_KEY", requests_per_minute=10
)


def simulated(run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_simulated(run())


def test_limiter_says_who_waits_and_when_no_one_does() -> None:
    said: list[tuple[str, KeyWait | None]] = []

    @simulated
    async def _() -> None:
        limits = {"k": KeyLimits(requests_per_minute=10)}
        limiter = LocalLimiter(limits, lambda key, wait: said.append((key, wait)))
        await asyncio.gather(*(limiter.acquire("k", "a", 0) for _ in range(4)))
        await limiter.pause("k", 30)
        await limiter.acquire("k", "a", 0)

    waits = [(wait.requests, round(wait.seconds), wait.is_paused) for _, wait in said if wait]
    # The first one starts at once, the others after 6, 12 and 18 s; that is said twice.
    assert waits == [(3, 6, False), (1, 6, False), (1, 30, True)]
    assert said[-1] == ("k", None)
    assert [wait for _, wait in said].count(None) == 2


def test_short_waits_are_not_said() -> None:
    said: list[object] = []

    @simulated
    async def _() -> None:
        limits = {"k": KeyLimits(requests_per_minute=120)}
        limiter = LocalLimiter(limits, lambda *told: said.append(told))
        await asyncio.gather(*(limiter.acquire("k", "a", 0) for _ in range(100)))

    assert said == []


def test_breaker_says_how_long_it_holds_an_agent_back_and_why() -> None:
    said: list[tuple[str, str | None]] = []

    @simulated
    async def _() -> None:
        settings = BreakerSettings(failures=2)
        breaker = AgentBreaker(settings, on_wait=lambda *told: said.append(told))
        for _ in range(3):
            await breaker.before(AGENT)
            breaker.after(AGENT, FAILED)
        await breaker.before(AGENT)
        breaker.after(AGENT, result())

    def why(seconds: int, starts: int) -> str:
        reason = "starts in a row have failed; the last reason: No such program."
        return f"waiting {seconds} s: {starts} {reason}"

    assert said == [("a", why(5, 2)), ("a", why(15, 3)), ("a", None)]


async def test_guards_name_agents_and_the_variable_and_never_a_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("P_KEY", SECRET)
    said: list[tuple[str, str | None]] = []
    agents = (
        AgentSpec(name="claude", command=("x",), provider="p"),
        AgentSpec(name="other", command=("x",), provider="p"),
        AgentSpec(name="third", command=("x",)),
    )
    settings = RunSettings(agents=agents, providers=(PROVIDER,))
    async with open_guards(settings, on_wait=lambda *told: said.append(told)) as guards:
        assert guards.gateway is not None
        limiter = guards.gateway._forwarder._limiter
        await limiter.pause("p", 2)
        await asyncio.wait_for(limiter.acquire("p", "a", 0), 40)
        failed = FAILED
        for _ in range(5):
            await guards.breaker.before(agents[2])
            assert failed.failure is not None
            guards.breaker.after(agents[2], failed)
    why = r"the pause that the provider asked for, with the key in P_KEY \(1 request\)"
    assert [what for what, _ in said[:2]] == ["claude, other"] * 2
    assert re.fullmatch(rf"waiting [12] s for {why}", said[0][1] or "")
    assert said[1][1] is None
    assert said[2][0] == "third"
    assert SECRET not in repr(said)


async def test_a_run_says_that_an_agent_does_not_start() -> None:
    control, said = Control(), list[tuple[str, str | None]]()
    control.on_wait = lambda *told: said.append(told)

    def stop(what: str, why: str | None) -> None:
        said.append((what, why))
        control.cancel()

    control.on_wait = stop
    tasks = [task("say 1", name=f"t{n}") for n in range(8)]
    await outcomes(tasks, raw("exit"), jobs=2, control=control)
    assert said[0][0] == "raw"
    assert "5 starts in a row have failed; the last reason: Expected raw to answer" in str(said[0])


def test_lines_do_not_repeat_what_waits() -> None:
    now, out = [0.0], io.StringIO()
    progress = LineProgress("RUN", out, clock=lambda: now[0])
    for now[0] in range(0, 121, 10):
        progress.waiting("claude", "waiting 6 s for the limit of the key in K (1 request)")
    expected = "claude: waiting 6 s for the limit of the key in K (1 request)\n"
    assert out.getvalue() == expected * 3


async def test_warnings_have_the_attempt_and_no_secrets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = logging.getLogger("accord.some")
    names = [attempt_name("t1", "claude", 1), attempt_name("t2", "a", 2)]

    async def work(name: str) -> None:
        with working_for(lambda: name):
            await asyncio.create_task(asyncio.sleep(0))
            log.warning("! odd %s", f"\x1b{SECRET}")

    with named_warnings(lambda text: text.replace(SECRET, "[redacted]")):
        await asyncio.gather(*map(work, names))
        log.warning("! alone")
        log.info("not shown")
    log.info("not shown either")
    assert capsys.readouterr().err.splitlines() == [
        "t1 by claude: ! odd \\x1b[redacted]",
        "t2 by a, attempt 2: ! odd \\x1b[redacted]",
        "! alone",
    ]
