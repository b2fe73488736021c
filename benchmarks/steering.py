"""Measures steering: from `turn.steer(…)` until the agent's handler has the message.

`python benchmarks/steering.py [--save FILE] [--rounds N] [--messages N]`. The agent works in a
process of its own and floods the client with 5,000 updates/s; the client iterates over the events
and says something every 10 to 30 ms. The places take turns in each round: pipes, WebSocket, HTTP,
and pipes through three proxy processes; each also without the flood, in the same round.

The clock is that of the machine (CLOCK_MONOTONIC), which all processes share.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import machine

import accord

HERE = Path(__file__).parent
ACCORD = (sys.executable, "-m", "accord")
BOUND_MS = 50.0
RATE = 5_000
WARM = 10
AGENT = """
import asyncio, json, time
from accord import Agent, Turn

class Busy(Agent):
    steering = True

    async def prompt(self, turn: Turn) -> None:
        took = []

        async def listen():
            async for message in turn.steering():
                now = time.monotonic_ns()
                if message.text == "stop":
                    return
                took.append((now - int(message.text)) / 1e6)

        listening = asyncio.create_task(listen())
        rate, loop = int(turn.text), asyncio.get_running_loop()
        begin, sent = loop.time(), 0
        while not listening.done():
            due = int((loop.time() - begin) * rate)
            while sent < due:
                sent += 1
                await turn.say("word ")
            await asyncio.sleep(0.005)
        await turn.set_title(json.dumps([took, sent, loop.time() - begin]))

if __name__ == "__main__":
    Busy().run()
"""


@asynccontextmanager
async def served(folder: Path) -> AsyncGenerator[str]:
    """Serve the agent on the network; give `HOST:PORT`."""
    words = [*ACCORD, "serve", "--insecure", "--port", "0", "agent:Busy"]
    log = (folder / "server.log").open("w+b")
    server = await asyncio.create_subprocess_exec(
        *words, cwd=folder, stdout=log, stderr=subprocess.STDOUT
    )
    try:
        for _ in range(600):
            text = (folder / "server.log").read_text("utf-8")
            if "ws://" in text:
                yield text.partition("ws://")[2].partition("/")[0]
                return
            await asyncio.sleep(0.05)
        raise RuntimeError(f"the server did not start: {text}")
    finally:
        server.terminate()
        await server.wait()
        log.close()


async def measure(target: Any, version: Any, rate: int, messages: int) -> tuple[list[float], float]:
    """Return the milliseconds of each message, and the updates per second."""
    chance = random.Random(1)
    async with accord.connect(target, versions=(version,)) as agent:
        session = await agent.new_session(HERE)
        machine.go_first(*machine.descendants())
        assert agent.supports("steer")
        async with session.prompt(str(rate)) as turn:

            async def speak() -> None:
                for _ in range(messages + WARM):
                    await asyncio.sleep(chance.uniform(0.01, 0.03))
                    steered = await turn.steer(str(time.monotonic_ns()))
                    assert steered.outcome == "injected", steered
                await turn.steer("stop")

            speaking = asyncio.create_task(speak())
            await turn.wait()
            await speaking
        took, sent, seconds = json.loads(session.transcript.title or "")
        assert len(took) == messages + WARM, "a message was lost"
        return took[WARM:], sent / seconds


def percentile(values: list[float], share: float) -> float:
    """Return the value that this share of the values does not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def row(name: str, took: list[float], rates: list[float]) -> str:
    """Return a row of the table."""
    cells = [f"{percentile(took, share):.1f}" for share in (0.5, 0.95, 0.99, 1.0)]
    within = sum(each <= BOUND_MS for each in took) / len(took)
    per_s = sum(rates) / len(rates)
    numbers = f"{per_s:,.0f} | {within * 100:.1f} % | {len(took):,}"
    return f"| {name} | {' | '.join(cells)} | {numbers} |"


async def run(rounds: int, messages: int) -> dict[str, tuple[list[float], list[float]]]:
    """Measure every place in turns."""
    found: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "agent.py").write_text(AGENT)
        agent = (sys.executable, str(folder / "agent.py"))
        proxy = shlex.join((sys.executable, str(HERE / "proxies" / "pass_through.py")))
        async with served(folder) as address:
            places: list[tuple[str, Any]] = [
                ("pipes", list(agent)),
                ("WebSocket", f"ws://{address}/acp"),
                ("HTTP", f"http://{address}/acp"),
                ("three proxies", [*ACCORD, "chain", proxy, proxy, proxy, shlex.join(agent)]),
            ]
            for number in range(rounds):
                for at in range(len(places)):
                    place, target = places[(at + number) % len(places)]
                    for version in (1, 2):
                        for rate in (0, RATE):
                            what = f"{place}, version {version}"
                            what += f", {rate:,} updates/s" if rate else ""
                            took, per_s = await measure(target, version, rate, messages)
                            found[what][0].extend(took)
                            found[what][1].append(per_s)
                            print(row(what, took, [per_s]), flush=True)
    return found


def main() -> int:
    machine.go_first()
    parser = argparse.ArgumentParser(description="Measure steering.")
    parser.add_argument("--save", type=Path, help="write the table to this file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=200, help="for each row and round")
    given = parser.parse_args()
    before = os.getloadavg()[0]
    found = asyncio.run(run(given.rounds, given.messages))
    lines = [row(what, *found[what]) for what in sorted(found)]
    flooded = [each for what, (took, _) in found.items() if "updates" in what for each in took]
    within = sum(each <= BOUND_MS for each in flooded) / len(flooded) * 100
    verdict = "met" if within >= 95 else "**missed**"
    text = f"""# Steering

{time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())}. {machine.description()}.
Load average {before:.1f} to {os.getloadavg()[0]:.1f}: the programs of others, and these.
Milliseconds from `turn.steer(…)` until the agent's handler has the message. The agent sends
5,000 updates/s meanwhile, or none; the client iterates over the events. *Within* is the share of
the messages that took at most {BOUND_MS:.0f} ms.

With updates, {within:.1f} % of the messages took at most {BOUND_MS:.0f} ms (≥ 95 %): {verdict}.

| | median | 95 % | 99 % | worst | updates/s | within | messages |
|---|--:|--:|--:|--:|--:|--:|--:|
{chr(10).join(lines)}
"""
    machine.report(text, "STEERING", given.save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
