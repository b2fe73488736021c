"""The engine of this machine: a bounded number of attempts at the same time, on asyncio.

`engine_for` chooses between it and a cluster.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable

from accord.installed import install_command
from accord_fleet.attempt import run_attempt
from accord_fleet.engines.ray import RayEngine
from accord_fleet.machine import Machine, open_machine
from accord_fleet.plan import Plan, RunSettings
from accord_fleet.run import Attempted, Control, Engine
from accord_fleet.types import WorkItem


class LocalEngine:
    """Runs up to `jobs` attempts at the same time."""

    def __init__(self, jobs: int | None = None) -> None:
        self.jobs: int = jobs or os.cpu_count() or 1

    async def run(
        self,
        items: Iterable[WorkItem] | AsyncIterable[WorkItem],
        settings: RunSettings,
        control: Control,
    ) -> AsyncGenerator[Attempted]:
        """Yield the outcomes as they arrive; nothing starts while the caller does not take them."""
        source = _Source(items, control)
        done: asyncio.Queue[Attempted | None] = asyncio.Queue()
        room = asyncio.Semaphore(1)  # for one outcome that waits for the caller
        async with open_machine(settings, jobs=self.jobs, on_wait=control.wait) as machine:
            workers = [
                asyncio.create_task(
                    _work(source, machine, control, done, room),
                    name=f"accord fleet worker {number}",
                )
                for number in range(1, self.jobs + 1)
            ]
            running = self.jobs
            try:
                while running:
                    attempted = await done.get()
                    if attempted is None:
                        running -= 1
                    else:
                        room.release()
                        yield attempted
                for worker in workers:
                    await worker
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.wait(workers)


class _Source:
    """Hands out the items one by one."""

    def __init__(
        self, items: Iterable[WorkItem] | AsyncIterable[WorkItem], control: Control
    ) -> None:
        self._items: AsyncIterator[WorkItem] | None = None
        self._plain = iter(())
        if isinstance(items, AsyncIterable):
            self._items = aiter(items)
        else:
            self._plain = iter(items)
        self._control = control
        self._lock = asyncio.Lock()

    async def next(self) -> WorkItem | None:
        """Return the next item; None if there is none, or the run is being stopped."""
        if self._control.is_stopping:
            return None
        if self._items is None:
            return next(self._plain, None)
        async with self._lock:
            return await anext(self._items, None)


async def _work(
    source: _Source,
    machine: Machine,
    control: Control,
    done: asyncio.Queue[Attempted | None],
    room: asyncio.Semaphore,
) -> None:
    try:
        while (item := await source.next()) is not None:
            await control.begin(item)
            attempted = await run_attempt(item, machine, control)
            await room.acquire()
            done.put_nowait(attempted)
    finally:
        done.put_nowait(None)  # does not wait: the caller may take nothing more


# The engine of a plan.

_HOST = r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])"
_ADDRESS = re.compile(rf"local|ray|(?:ray://)?{_HOST}:[0-9]{{1,5}}")


def why_not_usable(engine: str) -> str | None:
    """Return what is wrong with the name of an engine, without connecting; None if nothing."""
    if not _ADDRESS.fullmatch(engine):
        return (
            "--on: expected `local`, `ray`, `ray://HOST:PORT` or `HOST:PORT`, such as"
            f" `ray://head:10001`, got {engine!r}"
        )
    if engine != "local" and importlib.util.find_spec("ray") is None:
        return f"--on {engine}: Ray is not installed: {install_command('fleet')}"
    return None


def engine_for(plan: Plan, jobs: int) -> Engine:
    """Return the engine that a plan names, for so many attempts at the same time."""
    if plan.engine == "local":
        return LocalEngine(jobs)
    # Resumed runs have the same name: the attempts of the earlier process are ended first.
    name = f"{plan.digest[:16]}-{plan.created:.6f}"
    return RayEngine(plan.engine, jobs=jobs, name=name)
