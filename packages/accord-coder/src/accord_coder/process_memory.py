"""Protects the memory and the environment of this process from other processes of the user."""

from __future__ import annotations

import sys

_PR_SET_DUMPABLE = 4


def conceal_process() -> None:
    """Make `/proc/PID/environ` and `/proc/PID/mem` of this process unreadable, on Linux.

    Commands that the user allows run as the user and could read keys there. Debuggers and core
    dumps of this process do not work either; programs that it starts are not affected. On other
    systems, only debuggers with special rights can read the memory of a process.
    """
    if sys.platform == "linux":
        import ctypes  # slow to import

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
