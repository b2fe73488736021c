"""Runs coroutines in virtual time: pauses of minutes take no time."""

from __future__ import annotations

import random
from collections.abc import Coroutine
from typing import Any

from simulation.loop import SimulatedLoop

__all__ = ("run_simulated",)


def run_simulated(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine; fail if it waits for nothing, or leaves an exception or a task."""
    loop = SimulatedLoop(random.Random(1))
    try:
        loop.run_until_complete(work)
        assert not loop.unhandled
        assert not loop.pending()
    finally:
        loop.abandon()
