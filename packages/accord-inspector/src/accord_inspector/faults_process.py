"""Suspends the agent's process, and continues it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress


def suspender(pid: int) -> Callable[[bool], None] | None:
    """Return what stops or continues the process group of an agent; None on Windows."""
    if sys.platform == "win32":
        return None

    def suspend(stop: bool) -> None:
        with suppress(ProcessLookupError, PermissionError):  # it has ended
            os.killpg(pid, signal.SIGSTOP if stop else signal.SIGCONT)

    return suspend
