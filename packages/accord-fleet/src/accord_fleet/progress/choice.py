"""Chooses how a run is shown."""

from __future__ import annotations

import sys

from accord_fleet.progress.json_lines import JsonProgress
from accord_fleet.progress.lines import LineProgress
from accord_fleet.run_observer import RunObserver


def progress_for(run: str, *, as_json: bool = False) -> RunObserver:
    """Return what shows a run: JSON on stdout, or a screen or lines on stderr."""
    if as_json:
        return JsonProgress(run, sys.stdout)
    if not sys.stderr.isatty():
        return LineProgress(run, sys.stderr)
    # `rich` is needed at a terminal only.
    from rich.console import Console

    from accord_fleet.progress.screen import ScreenProgress

    console = Console(stderr=True)
    return ScreenProgress(run, console) if console.is_terminal else LineProgress(run, sys.stderr)
