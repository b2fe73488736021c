"""Runs a fleet for the command line."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from accord_fleet.agent_words import agents_from_words
from accord_fleet.control import Control
from accord_fleet.engines.engine import RunSettings
from accord_fleet.engines.local import LocalEngine
from accord_fleet.errors import FleetError
from accord_fleet.plan import Plan
from accord_fleet.progress.choice import progress_for
from accord_fleet.run import run_plan
from accord_fleet.stand_ins_dataset import JsonLinesDataset, read_tasks

__all__ = ("run_fleet",)


async def run_fleet(
    *, tasks: Path, agents: Sequence[str], out: str, jobs: int, attempts: int, as_json: bool
) -> int:
    """Run all attempts; return the exit status."""
    specs, errors = agents_from_words(agents)
    if errors:
        raise FleetError("\n".join(errors))
    plan = Plan(
        created=time.time(),
        agents=tuple(specs),
        attempts=attempts,
        tasks=sum(1 for _ in read_tasks(tasks)),
        digest="",
        jobs=jobs,
    )
    async with await JsonLinesDataset.create(out, plan, read_tasks(tasks)) as dataset:
        settings = RunSettings(agents=plan.agents)
        observer = progress_for(out, as_json=as_json)
        async for _ in run_plan(dataset, LocalEngine(jobs), settings, Control(), observer):
            pass
    return 0
