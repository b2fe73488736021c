"""Runs a plan: the attempts without a row go to an engine, and their results to the dataset.

`Control` stops a run, `Engine` is what runs attempts, and `RunObserver` shows them. `run_plan` puts
them together; `stopped_by_signals` lets Ctrl-C stop it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
)
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import msgspec

from accord_fleet.plan import Plan, RunSettings, work_items
from accord_fleet.scratch import remove_abandoned, scratch_folder
from accord_fleet.types import Result, Task, WorkItem

OnWait = Callable[[str, str | None], None]
"""Is called with what waits, and why; None when it no longer does. It returns quickly."""


class Control:
    """Stops a run; used in its event loop."""

    def __init__(self) -> None:
        self.stopping: asyncio.Event = asyncio.Event()
        """Set when no further tasks are started."""
        self.cancelling: asyncio.Event = asyncio.Event()
        """Set when running turns are cancelled."""
        self.on_begin: Callable[[WorkItem], Awaitable[None]] | None = None
        """Is awaited before an attempt begins; see `begin`."""
        self.on_wait: OnWait | None = None
        """Is called when an agent or a provider begins to wait, or no longer waits; see `wait`."""
        self._callbacks: dict[Callable[[], None], None] = {}

    @property
    def is_stopping(self) -> bool:
        """Whether no further tasks are started."""
        return self.stopping.is_set()

    @property
    def is_cancelling(self) -> bool:
        """Whether running turns are cancelled."""
        return self.cancelling.is_set()

    def stop(self) -> None:
        """Start no further tasks; running attempts continue."""
        self.stopping.set()

    def cancel(self) -> None:
        """Cancel running turns, too."""
        self.stopping.set()
        self.cancelling.set()
        for callback in list(self._callbacks):
            callback()

    async def begin(self, item: WorkItem) -> None:
        """Note that an attempt begins now; each engine calls this before it runs an attempt."""
        if self.on_begin is not None:
            await self.on_begin(item)

    def wait(self, what: str, why: str | None) -> None:
        """Say why an agent or a provider waits; None: it no longer does."""
        if self.on_wait is not None:
            self.on_wait(what, why)

    @contextmanager
    def on_cancel(self, callback: Callable[[], None]) -> Generator[None]:
        """Call a function when turns are cancelled while the block runs."""
        self._callbacks[callback] = None
        if self.is_cancelling:
            callback()
        try:
            yield
        finally:
            self._callbacks.pop(callback, None)


class Attempted(NamedTuple):
    """The outcome of one attempt."""

    result: Result
    trace: Path | bytes | None
    """The finished recording: a temporary file, which the receiver moves or removes, or its
    contents."""


class Engine(Protocol):
    """Runs attempts. The items are read only when there is room for them, and nothing is lost.

    When `control.is_stopping`, no further items are read. When `control.is_cancelling`, running
    attempts are cancelled, and their results are `cancelled`. `control.begin` is awaited before an
    attempt begins: after a loss of the driver, that decides whether it may be repeated.
    """

    def run(
        self,
        items: Iterable[WorkItem] | AsyncIterable[WorkItem],
        settings: RunSettings,
        control: Control,
    ) -> AsyncGenerator[Attempted, None]:
        """Yield the outcomes as they arrive; the caller closes the generator."""
        ...


RunStage = Literal["running", "stopping", "cancelling", "ended"]


class RunObserver(Protocol):
    """Shows a run; its methods are called in the event loop of the run and return quickly."""

    def begin(self, plan: Plan, done: int) -> None:
        """A run begins; `done` of `plan.total` attempts have results from before."""
        ...

    def starting(self, item: WorkItem) -> None:
        """The engine has taken an attempt; it starts when there is room for it."""
        ...

    def waiting(self, what: str, why: str | None) -> None:
        """An agent, or several that share a key, wait for a reason; None: they no longer do."""
        ...

    def result(self, result: Result) -> None:
        """A result was stored."""
        ...

    def stage(self, stage: RunStage) -> None:
        """The user stopped taking tasks, or cancelled turns, or everything has ended."""
        ...


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


@contextlib.contextmanager
def stopped_by_signals(control: Control, on_stage: Callable[[RunStage], None]) -> Generator[None]:
    """Let signals stop a run in the block; enter it in the main thread, in the loop of the run.

    The first SIGINT lets running attempts continue and starts no more. The second one, or SIGTERM,
    cancels running turns. The third one ends this process at once; the guardian of the agents ends
    them, and the dataset has every result that was stored.
    """
    loop = asyncio.get_running_loop()

    def interrupted() -> None:
        if control.is_cancelling:
            _end_now(signal.SIGINT)
        elif control.is_stopping:
            cancel()
        else:
            control.stop()
            on_stage("stopping")

    def cancel() -> None:
        control.cancel()
        on_stage("cancelling")

    def terminated() -> None:
        if control.is_cancelling:
            _end_now(signal.SIGTERM)
        cancel()

    if sys.platform == "win32":  # the event loop has no signal handlers there
        before = signal.signal(
            signal.SIGINT, lambda _number, _frame: loop.call_soon_threadsafe(interrupted)
        )
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
        return
    loop.add_signal_handler(signal.SIGINT, interrupted)
    loop.add_signal_handler(signal.SIGTERM, terminated)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGTERM)


def _end_now(number: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(128 + number)
