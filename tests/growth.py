"""Measures whether a cost grows, in bytes and in lines that run: no load changes these."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ("Cost", "cost_of", "is_flat")


class Cost(NamedTuple):
    """What a piece of work takes: lines of Python that run, and the most bytes at one time."""

    lines: int
    peak: int


def cost_of(work: Callable[[], Any]) -> Cost:
    """Do it four times; return the lines of the second time and the bytes of the fourth."""
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
    try:
        work()  # what it makes larger in place is known from now on
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        work()
        return Cost(lines, tracemalloc.get_traced_memory()[1] - held)
    finally:
        tracemalloc.stop()


def is_flat(few: Cost, many: Cost, *, slack_bytes: int = 4096) -> bool:
    """Return whether a cost is about the same where there is much more of everything."""
    return many.lines <= 1.5 * few.lines + 20 and many.peak <= 2 * few.peak + slack_bytes
