"""What is shown while a run is in progress."""

from __future__ import annotations

from typing import Literal, Protocol

from accord_fleet.plan import Plan
from accord_fleet.types.result import Result
from accord_fleet.types.task import WorkItem

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
