"""Measures costs in bytes and executed lines, which do not depend on the machine's load."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ("Cost", "cost_of", "is_flat")


class Cost(NamedTuple):
    """The cost of some work: executed Python lines, and the peak of allocated bytes."""

    lines: int
    peak: int


def cost_of(work: Callable[[], Any]) -> Cost:
    """Run the work four times; return the lines of the second and the bytes of the fourth run."""
    work()
    lines = 0

    def trace(_frame: Any, event: str, _argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    tracemalloc.start()
    gc.disable()  # a collection takes long in a process that has run many tests
    try:
        work()  # structures that grow in place are known after the first runs
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        work()
        return Cost(lines, tracemalloc.get_traced_memory()[1] - held)
    finally:
        gc.enable()
        tracemalloc.stop()


def is_flat(few: Cost, many: Cost, *, slack_bytes: int = 4096) -> bool:
    """Return whether a cost is about the same with much more data."""
    return many.lines <= 1.5 * few.lines + 20 and many.peak <= 2 * few.peak + slack_bytes
