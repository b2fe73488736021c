"""Runs a plan: the attempts without a row go to an engine, and their results to the dataset."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from typing import Protocol

import msgspec

from accord_fleet.control import Control
from accord_fleet.engine import Attempted, Engine, RunSettings
from accord_fleet.plan import Plan, work_items
from accord_fleet.run_observer import RunObserver
from accord_fleet.scratch import remove_abandoned, scratch_folder
from accord_fleet.types.result import Result
from accord_fleet.types.task import Task, WorkItem


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

    async def begin(self, item: WorkItem) -> None:
        """Note that an attempt begins, if it must not be repeated."""
        ...

    def append_all(self, outcomes: AsyncGenerator[Attempted]) -> AsyncGenerator[Result]:
        """Store outcomes as they arrive; yield what is stored, and close `outcomes`."""
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
    # Recordings outlive the attempts until they are stored.
    await asyncio.to_thread(remove_abandoned)
    with scratch_folder() as recordings:
        settings = msgspec.structs.replace(settings, recordings=str(recordings))
        control.on_begin = dataset.begin
        control.on_wait = observer.waiting
        try:
            outcomes = engine.run(items, settings, control)
            async with aclosing(dataset.append_all(outcomes)) as results:
                async for result in results:
                    observer.result(result)
                    yield result
        finally:
            observer.stage("ended")


def _shown(items: Iterable[WorkItem], observer: RunObserver) -> Iterator[WorkItem]:
    for item in items:
        observer.starting(item)
        yield item
