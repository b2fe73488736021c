"""Runs a fleet for the command line."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from accord_fleet.agent_words import agents_from_words
from accord_fleet.command.recovered import recovered_lines
from accord_fleet.control import Control
from accord_fleet.dataset.writer import DatasetWriter
from accord_fleet.engines.choice import engine_for
from accord_fleet.engines.engine import RunSettings
from accord_fleet.errors import FleetError
from accord_fleet.plan import Plan
from accord_fleet.progress.choice import progress_for
from accord_fleet.run import run_plan
from accord_fleet.run_observer import RunObserver
from accord_fleet.tasks.read import check_tasks

__all__ = ("resume_fleet", "run_fleet")


async def run_fleet(
    *,
    tasks: str,
    defaults: Path | None,
    agents: Sequence[str],
    out: str,
    jobs: int,
    engine: str,
    attempts: int,
    as_json: bool,
) -> int:
    """Run all attempts; return the exit status."""
    specs, errors = agents_from_words(agents)
    if errors:
        raise FleetError("\n".join(errors))
    with await check_tasks(
        tasks, defaults=defaults, agents=[spec.name for spec in specs]
    ) as checked:
        plan = Plan(
            created=time.time(),
            agents=tuple(specs),
            attempts=attempts,
            tasks=checked.count,
            digest=checked.digest,
            jobs=jobs,
            engine=engine,
        )
        async with await DatasetWriter.create(out, plan, checked) as dataset:
            await _run(dataset, jobs, progress_for(out, as_json=as_json))
    return 0


async def resume_fleet(*, out: str, jobs: int | None, as_json: bool) -> int:
    """Run the attempts that have no result yet; return the exit status."""
    async with await DatasetWriter.resume(out) as dataset:
        for line in recovered_lines(dataset):
            click.echo(line, err=True)
        await _run(dataset, jobs or dataset.plan.jobs, progress_for(out, as_json=as_json))
    return 0


async def _run(dataset: DatasetWriter, jobs: int, observer: RunObserver) -> None:
    plan = dataset.plan
    settings = RunSettings(agents=plan.agents)
    engine = engine_for(plan, jobs)
    async for _ in run_plan(dataset, engine, settings, Control(), observer):
        pass
