"""Budgets: the turn that reaches a limit is cancelled, whatever the agent reports."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any, Literal, get_args

import pytest

from accord import (
    Agent,
    Budget,
    BudgetExceeded,
    CancelTimeout,
    ClientSession,
    Cost,
    Implementation,
    SpendingLedger,
    StoreUnavailable,
    TokenUsage,
    Turn,
    UnmeteredAgent,
    connect,
    serve,
)
from accord.client.budget import LimitReached, SessionMeter, Spent, shown
from accord.transports.memory import pair
from client.wire_agents import BOTH, agent_by_hand, opened, update
from versions import only


class Model(Agent):
    """Makes as many requests of its model as the prompt says, and reports what each one costs."""

    info = Implementation("model", "1")
    reports = frozenset({"tokens", "cost"})

    def __init__(self) -> None:
        self.spent = 0.0  # all sessions together
        self.largest = 0.0
        self.requests = 0

    async def prompt(self, turn: Turn) -> None:
        for _ in range(int(turn.text)):
            await self.request(turn)

    async def request(self, turn: Turn, cost: float = 1.0) -> None:
        self.requests += 1
        await asyncio.wait_for(_moment(), 10)
        self.spent += cost
        self.largest = max(self.largest, cost)
        await turn.set_context_usage(100, 200_000, cost=Cost(self.spent, "USD"))


async def _moment() -> None:
    """What a request takes, in which messages pass in both directions."""
    for _ in range(30):
        await asyncio.sleep(0)


@asynccontextmanager
async def session_of(
    agent: Agent, version: int = 1, **options: Any
) -> AsyncGenerator[ClientSession]:
    ours, theirs = pair()
    serving = asyncio.create_task(serve(agent, theirs))
    async with connect(ours, versions=only(version), **options) as connected:
        yield await connected.new_session("/")
    await serving


async def turn_of(session: ClientSession, prompt: str) -> tuple[str | None, LimitReached | None]:
    async with session.prompt(prompt) as turn:
        await turn.wait()
    return turn.stop_reason, turn.limit


@BOTH
async def test_the_turn_that_reaches_a_limit_is_cancelled_and_the_session_goes_on(
    version: int,
) -> None:
    model = Model()
    async with session_of(model, version, budget=Budget(cost=3)) as session:
        async with session.prompt("100") as turn:
            await turn.wait()
        assert turn.stop_reason == "cancelled"
        assert turn.limit == LimitReached(name="cost", per="turn", spent=3, allowed=3, unit="USD")
        assert str(turn.limit) == "Limit of the turn reached: 3.00 USD of 3.00 USD"
        assert turn.spent is not None
        assert turn.spent.cost == 3
        assert model.requests <= 4
        # A turn below the limit, and what the session has used.
        assert await turn_of(session, "2") == ("end_turn", None)
        assert turn.spent is not None
        spent = session.spent
        assert spent is not None
        assert spent.cost == pytest.approx(model.spent)


async def test_limit_of_a_session_refuses_the_next_prompt() -> None:
    model = Model()
    async with session_of(model, budget=Budget(cost=3, per="session")) as session:
        assert await turn_of(session, "2") == ("end_turn", None)
        stop_reason, limit = await turn_of(session, "1")
        # What is used up at the end of a turn is found with it, or with its last report.
        assert stop_reason in ("end_turn", "cancelled")
        assert limit is not None
        with pytest.raises(BudgetExceeded, match=r"Limit of the session reached: 3\.00 USD of 3"):
            async with session.prompt("1"):
                pass
        assert model.requests == 3
        # The session is as usable as before, but for prompts.
        assert session.spent is not None
        assert session.spent.cost == 3


class Worker(Agent):
    """Does what each word of the prompt says."""

    info = Implementation("worker", "1")
    unstable = True  # tokens are

    def __init__(self) -> None:
        self.may_end = asyncio.Event()

    async def prompt(self, turn: Turn) -> None:
        for number, word in enumerate(turn.text.split()):
            match word:
                case "call":
                    async with turn.tool(f"Call {number}"):
                        await _moment()
                case "edit":
                    async with turn.tool(f"Edit {number}", kind="edit") as call:
                        await call.add_diff(f"/a{number}.py", "a", "b")
                        await _moment()
                case "same":
                    async with turn.tool(f"Edit {number}", kind="edit") as call:
                        await call.add_diff("/same.py", "a", "b")
                case "ask":
                    async with turn.tool("Ask") as call:
                        await turn.say(str(await call.permission()))
                case "wait":
                    await self.may_end.wait()
                case "tokens":
                    turn.token_usage = TokenUsage(total=500, input=400, output=100)
                case "context":
                    await turn.set_context_usage(100 + number, 1000)
                    await _moment()
                case _:
                    raise AssertionError(word)


@BOTH
async def test_calls_files_and_tokens_are_limited(version: int) -> None:
    cases: list[tuple[Budget, str, str, float]] = [
        (Budget(tool_calls=2), "call call", "", 0),
        (Budget(tool_calls=2), "call call call call", "tool_calls", 3),
        (Budget(changed_files=2), "edit same same edit edit", "changed_files", 3),
        (Budget(changed_files=2), "same same edit", "", 0),
        (Budget(tokens=1000), "tokens", "", 0),
        (Budget(tokens=400), "tokens", "tokens", 500),
        # Context usage that changes is a request; what the agent reports at the end replaces it.
        (Budget(tokens=250), "context context context context", "tokens", 303),
        (Budget(tokens=1000), "context context context tokens", "", 0),
    ]
    options: dict[str, Any] = {"unmetered": ["worker"]}
    for budget, prompt, name, spent in cases:
        async with session_of(Worker(), version, budget=budget, **options) as session:
            _, limit = await turn_of(session, prompt)
            found = ("", 0.0) if limit is None else (limit.name, limit.spent)
            assert found == (name, spent), (budget, prompt)
            assert await turn_of(session, "") == ("end_turn", None)


async def test_time_is_limited_and_does_not_run_while_a_question_is_open() -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def user(_request: object) -> Literal["allow"]:
        asked.set()
        await answer.wait()
        return "allow"

    budget = Budget(seconds=0.2)
    async with session_of(Worker(), budget=budget, permissions=user) as session:
        async with session.prompt("ask wait") as turn:
            await asked.wait()
            loop = asyncio.get_running_loop()
            began = loop.time()
            while loop.time() - began < 0.3:  # longer than the limit
                await asyncio.to_thread(lambda: None)
            assert turn.limit is None
            answer.set()
            assert await turn.wait() == "cancelled"
        assert turn.limit is not None
        assert turn.limit.name == "seconds"
        assert turn.text == "True"
        assert turn.spent is not None
        assert turn.spent.seconds < 0.3


async def test_an_agent_that_is_cancelled_and_goes_on_loses_its_connection() -> None:
    class Deaf(Model):
        async def prompt(self, turn: Turn) -> None:
            while True:
                with suppress(asyncio.CancelledError):
                    await self.request(turn)

    ours, theirs = pair()
    serving = asyncio.create_task(serve(Deaf(), theirs))
    async with connect(ours, versions=(1,), budget=Budget(cost=2)) as agent:
        session = await agent.new_session("/")
        with pytest.raises(CancelTimeout):
            async with session.prompt("1", cancel_timeout_s=0.1) as turn:
                await turn.wait()
        assert turn.limit is not None
        await asyncio.wait_for(agent.remote.connection.wait_ended(), 5)
    serving.cancel()
    await asyncio.wait([serving])


# What agents report wrongly.

Way = Literal[
    "at once",
    "late",
    "never",
    "large steps",
    "decreasing",
    "again",
    "new count",
    "negative",
    "other currency",
]
RUNS = 1000


class Reporter(Model):
    """Reports the cost of its requests in one of many ways; a request costs when it begins."""

    info = Implementation("reporter", "1")

    def __init__(self, way: Way, seed: int, limit: float) -> None:
        super().__init__()
        self.reports = frozenset[Any]() if way == "never" else Model.reports
        self.limit = limit
        self.above = 0  # requests that began when the limit was reached
        self._way = way
        self._random = random.Random(seed)
        self._shown = 0.0
        self._base = 0.0

    async def request(self, turn: Turn, cost: float = 0.0) -> None:
        before = self.spent
        self.requests += 1
        self.above += before >= self.limit
        cost = 8.0 if self._way == "large steps" else self._random.choice((0.01, 0.3, 2.0))
        self.spent += cost
        if self._way == "late":
            await self._show(turn, before)  # while the next request runs
        await _moment()
        shown = self.spent - self._base
        match self._way:
            case "late" | "never":
                return
            case "decreasing" if self._random.random() < 0.3:
                await self._show(turn, shown)
                shown /= 2
            case "again":
                await self._show(turn, shown)
            case "new count" if cost < self._shown and self._random.random() < 0.5:
                self._base = self.spent - cost
                shown = cost
            case "negative" if self._random.random() < 0.5:
                shown = -shown
            case "other currency" if self._random.random() < 0.5:
                await self._show(turn, 0.0, "EUR")
                return
            case _:
                pass
        self._shown = shown
        await self._show(turn, shown)

    async def _show(self, turn: Turn, amount: float, currency: str = "USD") -> None:
        await turn.set_context_usage(100, 1000, cost=Cost(amount, currency))


def reporters(runs: int) -> Iterator[tuple[Reporter, Budget, int, str]]:
    """Yield random agents of all ways with a budget, the version, and what names the run."""
    ways = get_args(Way)
    for seed in range(runs):
        way, limit = ways[seed % len(ways)], (0.5, 2.0, 5.0)[seed % 7 % 3]
        budget = Budget(cost=limit, per="session")
        yield Reporter(way, seed, limit), budget, 1 + seed // len(ways) % 2, f"{way}, seed {seed}"


@pytest.mark.slow
async def test_never_more_than_one_request_above_the_limit() -> None:
    """Of random turns of agents that report in many ways, in both versions."""
    reached = 0
    for agent, budget, version, run in reporters(RUNS):
        try:
            async with session_of(agent, version, budget=budget) as session:
                for _ in range(4):
                    _, limit = await turn_of(session, "10")
                    reached += limit is not None
        except BudgetExceeded:
            pass
        except UnmeteredAgent:
            assert run.startswith("never"), run
            assert agent.requests == 0, run
        assert agent.above <= 1, run
    assert reached > RUNS / 2


async def test_another_currency_or_unit_ends_the_turn() -> None:
    class Credits(Model):
        async def request(self, turn: Turn, cost: float = 1.0) -> None:
            await turn.set_context_usage(1, 10, cost=Cost(1, "credits"))
            await _moment()

    async with session_of(Credits(), budget=Budget(cost=5)) as session:
        stop_reason, limit = await turn_of(session, "50")
        assert stop_reason == "cancelled"
        assert str(limit) == "Limit of the turn (5.00 USD): the agent reports its cost in credits"
        with pytest.raises(BudgetExceeded):
            await turn_of(session, "1")
    async with session_of(Credits(), budget=Budget(cost=5, currency="Credits")) as session:
        assert await turn_of(session, "50") == ("end_turn", None)


async def test_an_agent_that_uses_tokens_and_reports_no_cost_gets_no_second_prompt() -> None:
    class Hides(Worker):
        reports = frozenset({"cost"})

    for prompt in ("tokens", "context"):
        async with session_of(Hides(), budget=Budget(cost=5)) as session:
            assert await turn_of(session, "") == ("end_turn", None)
            assert await turn_of(session, prompt) == ("end_turn", None)
            with pytest.raises(BudgetExceeded, match="uses tokens, and does not report their cost"):
                await turn_of(session, "")
    async with session_of(Hides(), budget=Budget(cost=5), unmetered=["worker"]) as session:
        await turn_of(session, "tokens")
        await turn_of(session, "tokens")


async def test_an_agent_that_reports_nothing_is_refused_unless_it_is_named() -> None:
    for budget, what in ((Budget(cost=1), "cost"), (Budget(tokens=1, seconds=1), "tokens")):
        with pytest.raises(UnmeteredAgent, match=rf"'worker' is not known to report its {what}"):
            async with session_of(Worker(), budget=budget):
                pass
        async with session_of(Worker(), budget=budget, unmetered=["worker"]):
            pass
    async with session_of(Worker(), budget=Budget(tool_calls=1)):
        pass


# The end of a turn.


async def test_a_turn_of_two_prompts_is_counted_once() -> None:
    """The agent joins a second prompt (R-PROMPT-24): one state ends both, with one report."""
    budget = Budget(tokens=500)
    async with agent_by_hand(2, budget=budget, unmetered=["raw"]) as (agent, raw):
        session = await opened(agent, raw)
        async with session.prompt("one") as turn:
            raw.answer((await raw.get())["id"], {"messageId": "u1"})
            raw.tell(*update("s1", sessionUpdate="state_update", state="running"))
            steering = asyncio.create_task(turn.steer("two"))
            raw.answer((await raw.get())["id"], {"messageId": "u2"})
            await steering
            usage = {"totalTokens": 300, "inputTokens": 300, "outputTokens": 0}
            raw.tell(
                *update(
                    "s1",
                    sessionUpdate="state_update",
                    state="idle",
                    stopReason="end_turn",
                    usage=usage,
                )
            )
            assert await turn.wait() == "end_turn"
        assert turn.token_usage is not None
        assert turn.limit is None
        assert turn.spent is not None
        assert turn.spent.tokens == 300


@BOTH
async def test_any_moment_of_a_limit_and_an_end_gives_one_true_result(version: int) -> None:
    """The agent ends its turn with the report that reaches the limit, before or after it."""

    class Racing(Model):
        def __init__(self, seed: int) -> None:
            super().__init__()
            self.random = random.Random(seed)
            self.cancelled = 0

        async def prompt(self, turn: Turn) -> None:
            self.requests += 1
            try:
                for _ in range(self.random.randrange(1, 4)):
                    self.spent += self.random.choice((1, 2, 5))
                    await turn.set_context_usage(1, 9, cost=Cost(self.spent))
                    for _ in range(self.random.choice((0, 0, 1, 3, 9, 30))):
                        await asyncio.sleep(0)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise

    for seed in range(150):
        agent = Racing(seed)
        budgets = [Budget(cost=5), Budget(cost=20, per="session")]
        async with session_of(agent, version, budget=budgets) as session:
            for _ in range(8):
                before, cancelled = agent.spent, agent.cancelled
                try:
                    stop_reason, limit = await turn_of(session, "go")
                except BudgetExceeded:
                    assert agent.spent >= 20, seed
                    break
                is_over = agent.spent - before >= 5 or agent.spent >= 20
                assert (limit is not None) == is_over, seed
                assert stop_reason == "end_turn" or limit is not None, seed
                assert stop_reason == "cancelled" or agent.cancelled == cancelled, seed
                assert session.spent is not None
                assert session.spent.cost == agent.spent, seed
            requests = agent.requests
            if agent.spent >= 20:
                with pytest.raises(BudgetExceeded):
                    await turn_of(session, "go")
            assert agent.requests == requests, seed


def test_time_that_is_over_at_the_end_of_the_turn_is_reported() -> None:
    now, reached = 0.0, list[LimitReached]()
    meter = SessionMeter([Budget(seconds=5)], clock=lambda: now)
    meter.begin_turn()
    meter.on_limit = reached.append
    now = 6.0
    meter.end_turn()
    assert [str(one) for one in reached] == ["Limit of the turn reached: 6.0 s of 5.0 s"]


# Accounts that outlive the process.


async def test_days_of_a_principal_are_shared_by_processes(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "spent.sqlite3"
    budgets = [Budget(cost=3, per="day")]
    for principal in ("ann", "ben"):
        first = SpendingLedger(path, principal=principal)
        async with session_of(Model(), budget=budgets, ledger=first) as session:
            assert await turn_of(session, "2") == ("end_turn", None)
        second = SpendingLedger(path, principal=principal)
        model = Model()
        async with session_of(model, budget=budgets, ledger=second) as session:
            _, limit = await turn_of(session, "9")
            assert limit is not None
            assert (limit.per, limit.spent) == ("day", 3)
            assert model.requests <= 2
            with pytest.raises(BudgetExceeded, match="of the day"):
                await turn_of(session, "1")
        first.close()
        second.close()
    assert path.stat().st_mode & 0o077 == 0


_KILLED = """
import asyncio, os, signal, sys
from accord import Budget, SpendingLedger, connect, serve
from accord.transports.memory import pair
from client.test_budget import Model, turn_of

class Killed(Model):
    async def prompt(self, turn):
        await self.request(turn)
        await self.request(turn)
        await self.request(turn)
        print(self.spent, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    ours, theirs = pair()
    serving = asyncio.create_task(serve(Killed(), theirs))
    ledger = SpendingLedger(sys.argv[1])
    async with connect(ours, budget=Budget(cost=9, per="day"), ledger=ledger) as agent:
        await turn_of(await agent.new_session("/"), "1")

asyncio.run(main())
"""


def test_killed_process_keeps_the_account(tmp_path: Path) -> None:
    path = tmp_path / "spent.sqlite3"
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, str(path)],
        capture_output=True, text=True, timeout=60, check=False,
        env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert done.stdout == "3.0\n"
    with closing(sqlite3.connect(path)) as db:
        found = db.execute("SELECT amount FROM spent WHERE key LIKE 'day %' AND name = 'cost USD'")
        (kept,) = found.fetchone()
    assert kept >= 2  # the last report was under way


async def test_a_turn_ends_if_its_account_cannot_be_kept(tmp_path: Path) -> None:
    class Broken:
        principal = ""

        def __init__(self) -> None:
            self.is_broken = False

        def read(self, _key: str) -> dict[str, float]:
            return {}

        def add(self, amounts: object) -> None:
            if self.is_broken:
                raise StoreUnavailable("The disk is full")

    ledger, model = Broken(), Model()
    async with session_of(model, budget=Budget(cost=50, per="day"), ledger=ledger) as session:
        assert await turn_of(session, "2") == ("end_turn", None)
        ledger.is_broken = True
        stop_reason, limit = await turn_of(session, "50")
        assert stop_reason == "cancelled"
        assert "the account cannot be kept" in str(limit)
        assert "The disk is full" in str(limit)
        assert model.requests <= 4
        with pytest.raises(BudgetExceeded, match="the account cannot be kept"):
            await turn_of(session, "1")
    (tmp_path / "file").write_text("")
    wrong = SpendingLedger(tmp_path / "file" / "spent.sqlite3")
    with pytest.raises(StoreUnavailable, match=r"The accounts in .*spent\.sqlite3 cannot be used"):
        async with session_of(Model(), budget=Budget(cost=1), ledger=wrong):
            pass


# What people write.


def test_budgets_are_read_from_text() -> None:
    assert Budget.parse("cost=2") == (Budget(cost=2),)
    assert Budget.parse("cost=$2.50, tokens=200k, time=10m, tools=50, files=3") == (
        Budget(cost=2.5, tokens=200_000, seconds=600, tool_calls=50, changed_files=3),
    )
    assert Budget.parse("cost=2 EUR/session, cost=20 EUR/day, seconds=90s") == (
        Budget(cost=2, currency="EUR", per="session"),
        Budget(cost=20, currency="EUR", per="day"),
        Budget(seconds=90),
    )
    assert Budget.parse("cost=12 credits") == (Budget(cost=12, currency="credits"),)
    assert Budget.parse("tokens=1.5m, time=1h") == (Budget(tokens=1_500_000, seconds=3600),)


def test_wrong_budgets_say_what_is_expected() -> None:
    cases = {
        "": "Expected parts such as cost=2",
        "2": "Expected parts such as cost=2, tokens=200k/session or time=10m/day, got '2'",
        "cost=": "cost=: expected an amount such as 2 USD or $2",
        "cost=0": "cost=0: expected more than 0",
        "cost=-1": "cost=-1: expected an amount",
        "costs=1": "Unknown limit 'costs': expected tokens, cost, seconds, tool_calls or"
        " changed_files; did you mean cost?",
        "time=10 parsecs": "seconds=10 parsecs: expected a time such as 90s, 10m or 1h",
        "tokens=2 USD": "tokens=2 USD: expected a number such as 50 or 200k",
        "tokens=0.5": "tokens=0.5: expected a whole number",
        "cost=1/week": "Expected parts such as",
        "cost=1, cost=2": "Expected one limit of cost for each turn, got two",
    }
    for text, expected in cases.items():
        with pytest.raises(ValueError, match=re.escape(expected)):
            Budget.parse(text)
    with pytest.raises(ValueError, match=r"Budget\(cost=…\): expected more than 0, got 0"):
        Budget(cost=0)
    with pytest.raises(ValueError, match="expected a limit: tokens, cost"):
        Budget()
    with pytest.raises(TypeError, match=r"Budget\(tokens=…\)"):
        Budget(tokens="many")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="turn, session or day, got 'week'"):
        Budget(cost=1, per="week")  # type: ignore[arg-type]


async def test_what_is_no_budget_is_refused() -> None:
    with pytest.raises(TypeError, match=r"connect\(budget=…\)"):
        async with session_of(Model(), budget="cost=2"):
            pass


def test_amounts_are_shown_to_people() -> None:
    assert shown("tokens", 1) == "1 token"
    assert shown("cost", 0.0021, "USD") == "0.0021 USD"
    spent = Spent(tokens=1200, cost=0.5, currency="USD", seconds=3.25, tool_calls=1)
    assert str(spent) == "1,200 tokens, 0.50 USD, 3.2 s, 1 tool call"
    assert str(Spent(tokens=12, is_estimate=True)) == "about 12 tokens, 0.0 s"
