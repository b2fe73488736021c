"""Many turns in one connection: memory does not grow."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import sys
from pathlib import Path
from typing import Any

import accord
from accord import Agent, Turn, connect
from accord.client.permissions import allow
from accord.local.command import LocalCommand
from accord.transports.memory import pair
from attack.watch import watched
from raw_peer import QUICK
from versions import only

__all__ = ("attack",)

_MOST_GROWTH_MIB = 4.0
_PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20 if hasattr(os, "sysconf") else 0.0


class _Agent(Agent):
    """Runs a turn with everything that a turn can contain."""

    async def prompt(self, turn: Turn) -> str | None:
        await turn.think("Well. " * 20)
        async with turn.tool("Look", kind="read", raw_input={"n": [1, 2, 3]}) as call:
            await call.add_content("found " * 50)
        await turn.plan(["one", "two"])
        for number in range(20):
            await turn.say(f"word {number} ")
        return None


def attack(seed: int, *, turns: int = 2000) -> int:
    """Run turns, the first third as warm-up; return their number."""
    return asyncio.run(_attack(random.Random(seed), turns))


async def _attack(rng: random.Random, turns: int) -> int:
    version: Any = rng.choice((1, 2))
    done, before = 0, 0.0
    while done < turns:
        # Half a minute is enough for each turn.
        async with watched():
            here, there = pair()
            serving = asyncio.ensure_future(accord.serve(_Agent(), here, limits=QUICK))
            async with connect(
                there, versions=only(version), permissions=allow("*"), limits=QUICK
            ) as client:
                for _ in range(10):
                    session = await client.new_session("/")
                    for _ in range(10):
                        async with session.prompt("go") as turn:
                            async for _event in turn:
                                pass
                    await session.close()
                    done += 10
            await serving
            if sys.platform == "linux":
                command = LocalCommand(["true"], cwd="/")
                await command.wait()
                await command.aclose()
        if before == 0.0 and done >= turns / 3:
            before = _resident_mib()
    growth = _resident_mib() - before
    assert growth < _MOST_GROWTH_MIB, f"{growth:.1f} MiB more after {turns} turns"
    assert _open_files() < 100, f"{_open_files()} open files"
    return done


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir())) if sys.platform == "linux" else 0


def _resident_mib() -> float:
    gc.collect()
    if sys.platform != "linux":
        return 0.0
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * _PAGE_MIB
