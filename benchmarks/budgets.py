"""What a budget costs: a streamed turn with and without one, in turns, in processor time.

    python benchmarks/budgets.py

A turn streams 20,000 updates of text, with a tool call and a report of usage for every 100. The
client has a budget or none, and the chain has a `BudgetProxy` or a proxy that passes everything.
Processor time of this process, in which everything runs, is compared pair by pair.
"""

from __future__ import annotations

import asyncio
import statistics
import time

from accord import Agent, Budget, Cost, Implementation, Proxy, Turn, chain, connect, serve
from accord.client.limits import Deny, Limits
from accord.proxy.budget import BudgetProxy
from accord.transports.memory import pair

UPDATES = 20_000
PAIRS = 15


class Streamer(Agent):
    """Streams text, and works and reports in between."""

    info = Implementation("streamer", "1")
    reports = frozenset({"tokens", "cost"})

    async def prompt(self, turn: Turn) -> None:
        for number in range(UPDATES):
            if number % 100 == 0:
                async with turn.tool(f"Step {number}", kind="edit"):
                    pass
                await turn.set_context_usage(number + 1, 200_000, cost=Cost(number / 1e6))
            await turn.say("word ")


class Passing(Proxy):
    """Passes everything."""


LIMIT = Budget(cost=1e6, tokens=10**12, tool_calls=10**9, changed_files=10**6, seconds=3600)


async def by_client(budget: Budget | None) -> float:
    """Return the processor seconds of a turn."""
    ours, theirs = pair()
    serving = asyncio.create_task(serve(Streamer(), theirs))
    async with connect(ours, budget=budget) as agent:
        took = await _turn(agent)
    await serving
    return took


async def by_proxy(proxy: Proxy) -> float:
    """Return the processor seconds of a turn through a proxy."""
    async with connect(chain(proxy, Streamer)) as agent:
        return await _turn(agent)


async def _turn(agent: object) -> float:
    session = await agent.new_session("/")  # type: ignore[attr-defined]
    began = time.process_time()
    async with session.prompt("Go") as turn:
        async for _ in turn:
            pass
    assert turn.limit is None
    return time.process_time() - began


async def main() -> None:
    """Print the medians of the pairs."""
    limits = Limits(budgets=(LIMIT,), deny=Deny(paths=("*.env",), commands=("git push*",)))
    cases = {
        "client": (lambda: by_client(None), lambda: by_client(LIMIT)),
        "chain": (lambda: by_proxy(Passing()), lambda: by_proxy(BudgetProxy(limits))),
    }
    for name, (without, within) in cases.items():
        ratios = []
        for number in range(PAIRS):
            order = (without, within) if number % 2 else (within, without)
            took = [await one() for one in order]
            plain, limited = took if number % 2 else reversed(took)
            ratios.append(limited / plain)
        spread = statistics.quantiles(ratios, n=4)
        median = statistics.median(ratios)
        print(
            f"{name}: {median - 1:+.1%} processor time (quartiles {spread[0] - 1:+.1%}, "
            f"{spread[2] - 1:+.1%}; {PAIRS} pairs of {UPDATES:,} updates)"
        )


asyncio.run(main())
