"""The processes that a process has started, with those that they have started."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

_LINKS_OF_ONE = 3  # of the folder of the threads: two, and one for each


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
    # Paths as texts: this runs after each attempt.
    folder = f"/proc/{pid}/task"
    with suppress(OSError):
        is_one = os.stat(folder).st_nlink == _LINKS_OF_ONE  # noqa: PTH116
        for thread in (pid,) if is_one else os.listdir(folder):  # noqa: PTH208
            with suppress(OSError), open(f"{folder}/{thread}/children", "rb", 0) as file:  # noqa: PTH123
                found.update(map(int, file.read().split()))
    return found
