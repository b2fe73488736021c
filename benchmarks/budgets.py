"""What a budget costs: streamed turns with and without one, side by side.

    python benchmarks/budgets.py [--save FILE] [--pairs N]

A turn streams 10,000 updates of text, with a tool call and a report of usage for every 100. The
client has a budget or none, and a chain has a `BudgetProxy` or an empty proxy, one that passes
everything: what a chain costs is not what a budget costs. Both connections of a row are open at the
same time, and their turns alternate, in random order; each pair is compared.

In one process, throughput is updates by second of its processor time. With programs, the agent, the
chain and this client have a process each, and throughput is also by the clock.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import machine
from msgspec import Struct

from accord import (
    Agent,
    Budget,
    ConnectedAgent,
    Cost,
    Implementation,
    Proxy,
    SpendingLedger,
    Turn,
    chain,
    component,
    connect,
    serve,
)
from accord.client.limits import Deny, Limits
from accord.proxy.budget import BudgetProxy
from accord.proxy.conductor import conduct
from accord.transports.memory import ServedTransport
from accord.transports.stdio import stdio

UPDATES = 10_000
EACH = 100  # updates for one tool call and one report of usage
BOUND = 0.05


class Streamer(Agent):
    """Streams text, and works and reports in between."""

    info = Implementation("streamer", "1")
    reports = frozenset({"tokens", "cost"})

    async def prompt(self, turn: Turn) -> None:
        for number in range(UPDATES):
            if number % EACH == 0:
                async with turn.tool(f"Step {number}", kind="edit"):
                    pass
                await turn.set_context_usage(number + 1, 200_000, cost=Cost(number / 1e6))
            await turn.say("word ")


class Empty(Proxy):
    """Passes everything."""


LARGE: dict[str, Any] = {
    "cost": 1e6,
    "tokens": 10**12,
    "tool_calls": 10**9,
    "changed_files": 10**6,
    "seconds": 10**6,
}
LIMIT, SESSION = Budget(**LARGE), Budget(**LARGE, per="session")
LIMITS = Limits(
    budgets=(LIMIT, SESSION), deny=Deny(paths=("*.env",), commands=("git push*",), hosts=("*.x",))
)
DAY = Limits(budgets=(LIMIT, Budget(**LARGE, per="day")))


class Side(Struct):
    """One of the two connections of a row: how it is opened, and what it took."""

    target: Callable[[], Any]
    budget: Budget | None = None
    agent: ConnectedAgent | None = None
    processes: tuple[int, ...] = ()  # that it has started
    cpu_s: list[float] = []
    clock_s: list[float] = []

    async def open(self, stack: AsyncExitStack, version: Any) -> None:
        """Open the connection, and make sure that everything is loaded."""
        before = set(machine.descendants())
        self.agent = await stack.enter_async_context(
            connect(self.target(), budget=self.budget, versions=(version,))
        )
        self.processes = tuple(set(machine.descendants()) - before)
        machine.go_first(*self.processes)
        await self.measure()
        self.cpu_s, self.clock_s = [], []

    def used_s(self) -> float:
        """Return the processor time of this process, and of those of the connection."""
        return time.process_time() + sum(map(machine.cpu_s, self.processes))

    async def measure(self) -> None:
        """Measure one turn, the first of its session."""
        assert self.agent is not None
        session = await self.agent.new_session("/")
        gc.collect()
        used, began = self.used_s(), time.perf_counter()
        async with session.prompt("Go") as turn:
            async for _ in turn:
                pass
        self.clock_s.append(time.perf_counter() - began)
        self.cpu_s.append(self.used_s() - used)
        assert (turn.stop_reason, turn.limit) == ("end_turn", None), turn


def served() -> ServedTransport:
    """Return a transport to an agent of this process."""
    return ServedTransport(partial(serve, Streamer()))


def rows(ledger: Path) -> dict[str, tuple[Side, Side]]:
    """Return what is compared: without and with a budget."""

    def chained(proxy: Proxy) -> Side:
        return Side(lambda: chain(proxy, Streamer()))

    def program(kind: str) -> Side:
        return Side(lambda: [sys.executable, str(Path(__file__)), "--chain", kind])

    return {
        "client": (Side(served), Side(served, LIMIT)),
        "chain": (chained(Empty()), chained(BudgetProxy(LIMITS))),
        "chain, limits of a day": (
            chained(Empty()),
            chained(BudgetProxy(DAY, ledger=SpendingLedger(ledger))),
        ),
        "chain of programs": (program("empty"), program("budget")),
    }


class Found(Struct):
    """What was measured of a row."""

    name: str
    plain: Side
    limited: Side

    def cost(self, kind: str) -> tuple[float, float, float]:
        """Return the lost share of throughput: median and quartiles of the pairs."""
        pairs = zip(getattr(self.plain, kind), getattr(self.limited, kind), strict=True)
        low, median, high = statistics.quantiles((1 - one / two for one, two in pairs), n=4)
        return median, low, high

    def line(self) -> str:
        """Return a row of the table."""
        median, low, high = self.cost("cpu_s")
        verdict = "met" if median <= BOUND else "**missed**"
        clock = ""
        if self.plain.processes:
            clock = "{:.1%} ({:.1%} to {:.1%})".format(*self.cost("clock_s"))
        each = [
            f"{UPDATES / statistics.median(side.cpu_s):,.0f}" for side in (self.plain, self.limited)
        ]
        return (
            f"| {self.name} | {each[0]} | {each[1]} | {median:.1%} | {low:.1%} to {high:.1%} |"
            f" {verdict} | {clock} |"
        )


async def measure(pairs: int) -> list[Found]:
    """Measure all rows, in turns: one pair of each at a time."""
    chance = random.Random(1)
    found: list[Found] = []
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            for version in (1, 2):
                for name, sides in rows(Path(folder) / f"{version}.sqlite3").items():
                    for side in sides:
                        await side.open(stack, version)
                    found.append(Found(f"{name}, version {version}", *sides))
            for _ in range(pairs):
                for one in found:
                    sides = [one.plain, one.limited]
                    chance.shuffle(sides)
                    for side in sides:
                        await side.measure()
    return found


async def be_chain(kind: str) -> None:
    """Be a chain of an agent and a proxy, as `accord chain` is."""
    agent = [sys.executable, str(Path(__file__)), "--agent"]
    proxy = Empty() if kind == "empty" else BudgetProxy(LIMITS)
    await conduct([component(proxy), component(agent)], stdio())


def main() -> int:
    """Print or save the table."""
    parser = argparse.ArgumentParser(description="Measure what budgets cost.")
    parser.add_argument("--save", type=Path, help="write the table to this file")
    parser.add_argument("--pairs", type=int, default=40, help="of turns, for each row")
    parser.add_argument("--agent", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--chain", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.agent:
        Streamer().run()
        return 0
    if given.chain:
        asyncio.run(be_chain(given.chain))
        return 0
    machine.go_first()
    before = os.getloadavg()[0]
    found = asyncio.run(measure(given.pairs))
    lines = "\n".join(one.line() for one in found)
    text = f"""# Budgets

{time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())}. {machine.description()}.
Load average {before:.1f} to {os.getloadavg()[0]:.1f}: the programs of others, and these.
A turn streams {UPDATES:,} updates of text, with a tool call and a report of usage for every {EACH}.
Without a budget, a chain has an empty proxy. Both sides are open in the same process, and their
turns alternate in random order: {given.pairs} pairs of each row. Updates by second of processor
time, of all processes together; *lost* is the median of the pairs: at most {BOUND:.0%} is allowed.

| | without | with | lost | quartiles | ≤ {BOUND:.0%} | by the clock |
|---|--:|--:|--:|--:|---|--:|
{lines}
"""
    machine.report(text, "BUDGETS", given.save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
