"""The processes that a process has started, with those that they have started."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

__all__ = ("descendants",)


def descendants(pid: int) -> frozenset[int]:
    """Return the numbers of all processes below a process; none if it has ended."""
    if sys.platform != "linux":
        import psutil

        with suppress(psutil.Error):
            return frozenset(child.pid for child in psutil.Process(pid).children(recursive=True))
        return frozenset()
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        children = _children(waiting.pop()) - found
        found |= children
        waiting += children
    return frozenset(found)


def _children(pid: int) -> set[int]:
    """Return the children, which Linux lists by the thread that has started them."""
    found: set[int] = set()
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found.update(map(int, (thread / "children").read_bytes().split()))
    return found
