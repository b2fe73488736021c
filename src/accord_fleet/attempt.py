"""One attempt: workspace, agent, session, turns, grader, recording."""

from __future__ import annotations

from accord_fleet.control import Control
from accord_fleet.engines.engine import Attempted
from accord_fleet.machine import Machine
from accord_fleet.types.task import WorkItem

__all__ = ("run_attempt",)


async def run_attempt(item: WorkItem, machine: Machine, control: Control) -> Attempted:
    """Run one attempt on this machine; every failure is a result.

    Only cancellation of the caller's task leaves as an exception.
    """
    raise NotImplementedError
