"""Runs attempts of real agent processes."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from accord_fleet import AgentSpec, Limits, LocalEngine, Result, Task
from accord_fleet.plan import RunSettings
from accord_fleet.run import Attempted, Control
from accord_fleet.types import WorkItem

RAW = (sys.executable, "-S", "-E", str(Path(__file__).parent / "agents" / "raw_agent.py"))
SCRIPT = (sys.executable, "-m", "accord", "agent", "script")


def raw(*words: str, name: str = "raw", warm: bool = True) -> AgentSpec:
    """Return an agent that misbehaves as its prompts say."""
    return AgentSpec(name=name, command=(*RAW, *words), warm=warm)


def task(*prompts: str, name: str = "t1", limits: Limits | None = None, **fields: object) -> Task:
    """Return a task."""
    return Task(id=name, prompts=prompts, limits=limits or Limits(), **fields)  # type: ignore[arg-type]


async def outcomes(
    tasks: Iterable[Task],
    agent: AgentSpec | None = None,
    *,
    others: Sequence[AgentSpec] = (),
    jobs: int = 1,
    control: Control | None = None,
    cancel_s: float = 0.2,
    **fields: object,
) -> list[Attempted]:
    """Run tasks; return what the engine yields. `others` are agents that grade."""
    agent = agent or raw()
    settings = RunSettings(agents=(agent, *others), cancel_s=cancel_s, **fields)  # type: ignore[arg-type]
    items = (WorkItem(task=given, agent=agent.name) for given in tasks)
    engine = LocalEngine(jobs)
    return [found async for found in engine.run(items, settings, control or Control())]


def recorded(attempted: Attempted) -> bytes:
    """Return the recording of an attempt, decompressed."""
    trace = attempted.trace
    assert trace is not None
    return gzip.decompress(trace.read_bytes() if isinstance(trace, Path) else trace)


async def results(
    tasks: Iterable[Task], agent: AgentSpec | None = None, **fields: object
) -> list[Result]:
    """Run tasks; return the results in the order of their ids."""
    found = await outcomes(tasks, agent, **fields)  # type: ignore[arg-type]
    return sorted((attempted.result for attempted in found), key=lambda result: result.task)


async def result(given: Task, agent: AgentSpec | None = None, **fields: object) -> Result:
    """Run one task; return its result."""
    [only] = await results([given], agent, **fields)
    return only
