"""Many turns in one process, cancelled at any point, leave no tasks, files or memory."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from accord import ToolCall
from accord.transports import guardian
from accord_coder.agent import Coder
from accord_coder.settings import Settings
from coder.harness import CoderHarness, coder_session
from coder.scripted_model import ScriptedModel, tool_prompt

TURNS_OF_ONE = 30  # session
WARM_SESSIONS = 4  # until then, caches of the interpreter and of the regular expressions fill
SESSIONS = 12
TURNS = TURNS_OF_ONE * SESSIONS
MAX_GROWTH_BLOCKS = 25 * TURNS_OF_ONE * (SESSIONS - WARM_SESSIONS)  # a leaked turn takes many more

# The actions of a turn; some require permission.
DOING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("read", {"path": "notes.txt"}),
    ("list", {"path": "."}),
    ("grep", {"pattern": "o", "path": "."}),
    ("write", {"path": "new.txt", "text": "x\n"}),
    ("execute", {"command": "echo hi"}),
    ("execute", {"command": "sleep 30"}),
    ("execute", {"command": "sleep 30 | cat"}),
    ("plan", {"entries": [{"content": "a"}]}),
    ("read", {"path": ".env"}),
    ("nothing", {}),
)


async def one_turn(harness: CoderHarness, chance: random.Random) -> str:
    """Run a turn and cancel it after a number of its events, or not at all."""
    uses = [chance.choice(DOING) for _ in range(chance.randint(1, 3))]
    waits = any(arguments.get("command", "").startswith("sleep") for _, arguments in uses)
    left = chance.randint(0, 12 if not waits else 4)
    async with harness.session.prompt(tool_prompt(uses)) as turn:
        if left == 0:
            await turn.cancel()
        async for event in turn:
            left -= 1
            sleeping = (
                waits
                and isinstance(event, ToolCall)
                and (event.kind, event.status) == ("execute", "in_progress")
            )
            if left == 0 or sleeping:
                await turn.cancel()
    return turn.stop_reason or ""


def children() -> set[str]:
    """Return the running child processes of this process, without the guardian."""
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        found |= set((task / "children").read_text().split())
    return {pid for pid in found if not _is_guardian(pid)}


def _is_guardian(pid: str) -> bool:
    """Return whether a process is the guardian, which ends commands when their owner is killed."""
    return guardian.__file__.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def handles() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # numbers


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
async def test_cancelled_turns_leave_nothing(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\n")
    (tmp_path / ".env").write_text("A=1\n")
    chance = random.Random()
    coder = Coder(Settings(data=tmp_path / "data"), model=Forgetful())
    stops: Counter[str] = Counter()
    before = (0, 0, 0)
    others = children()  # what forks programs for the tests
    # The client's state of a session is freed with its connection.
    for number in range(1, SESSIONS + 1):
        async with coder_session(cwd=tmp_path, model=coder.model, coder=coder) as harness:
            for _ in range(TURNS_OF_ONE):
                stops[await one_turn(harness, chance)] += 1
            assert len(coder.sessions) == 1
        del harness  # with its state of the session
        assert children() == others
        if number == WARM_SESSIONS:
            before = await resource_counts()
    after = await resource_counts()
    await coder.aclose()
    assert coder.sessions == {}
    assert after[:2] == before[:2], asyncio.all_tasks()
    assert after[2] - before[2] < MAX_GROWTH_BLOCKS
    assert set(stops) == {"cancelled", "end_turn"}
    assert min(stops.values()) > TURNS // 10


async def resource_counts() -> tuple[int, int, int]:
    """Return the number of tasks, open files and blocks of memory.

    Blocks are counted, not bytes: one large dictionary of the interpreter can grow at any time.
    """
    await drop_cancelled_timers()
    gc.collect()
    return len(asyncio.all_tasks()), handles(), sys.getallocatedblocks()


async def drop_cancelled_timers() -> None:
    """Make the event loop drop its cancelled timers, by cancelling more than half of all."""
    loop = asyncio.get_running_loop()
    for _ in range(1000):
        loop.call_later(60, print).cancel()
    await asyncio.sleep(0)


class Forgetful(ScriptedModel):
    """Does not record its requests."""

    async def answer(self, request: Any) -> AsyncGenerator[Any, None]:
        async for piece in super().answer(request):
            yield piece
        self.requests.clear()
