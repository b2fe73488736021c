"""Runs a plan: the attempts without a row go to an engine, and their results to the dataset."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Protocol

from accord_fleet.control import Control
from accord_fleet.engines.engine import Engine, RunSettings
from accord_fleet.plan import Plan, work_items
from accord_fleet.run_observer import RunObserver
from accord_fleet.types.result import Result
from accord_fleet.types.task import Task, WorkItem

__all__ = ("Dataset", "run_plan")


class Dataset(Protocol):
    """Where results are stored."""

    @property
    def plan(self) -> Plan:
        """The plan of the run."""
        ...

    def __len__(self) -> int:
        """Return the number of attempts that have a row."""
        ...

    def is_done(self, key: tuple[str, str, int]) -> bool:
        """Return whether an attempt has a row."""
        ...

    def tasks(self) -> Iterator[Task]:
        """Yield the tasks, reading them as needed."""
        ...

    async def append(self, result: Result, trace: Path | bytes | None = None) -> Result | None:
        """Store a result and its recording; return it as stored, None if it has a row."""
        ...


async def run_plan(
    dataset: Dataset,
    engine: Engine,
    settings: RunSettings,
    control: Control,
    observer: RunObserver,
) -> AsyncGenerator[Result]:
    """Run what has no row; yield the results as they are stored."""
    plan = dataset.plan
    observer.begin(plan, len(dataset))
    items = _shown(
        work_items(plan.agents, plan.attempts, dataset.tasks(), dataset.is_done), observer
    )
    try:
        async with aclosing(engine.run(items, settings, control)) as outcomes:
            async for attempted in outcomes:
                stored = await dataset.append(attempted.result, attempted.trace)
                if stored is not None:
                    observer.result(stored)
                    yield stored
    finally:
        observer.stage("ended")


def _shown(items: Iterable[WorkItem], observer: RunObserver) -> Iterator[WorkItem]:
    for item in items:
        observer.starting(item)
        yield item
