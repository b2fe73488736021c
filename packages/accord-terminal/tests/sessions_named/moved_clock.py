"""Moves the wall clock of every program that a test starts, by a number of seconds in a file."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ("MovedClock", "on_path")

# `sitecustomize` runs at the start of each Python program on its PYTHONPATH.
_PROGRAM = """
import datetime, os, time
_real_time, _real = time.time, datetime.datetime

def _offset():
    with open({path!r}) as file:
        return float(file.read() or 0)

class _Moved(_real):
    @classmethod
    def now(cls, tz=None):
        return _real.now(tz) + datetime.timedelta(seconds=_offset())

time.time = lambda: _real_time() + _offset()
datetime.datetime = _Moved
"""


class MovedClock:
    """The wall clock of the programs of a test; it can jump while they run."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._path = folder / "seconds"
        self._path.write_text("0")
        (folder / "sitecustomize.py").write_text(_PROGRAM.format(path=str(self._path)))

    def jump(self, days: float) -> None:
        """Set the clock to the real time and so many days."""
        made = self._path.with_suffix(".new")
        made.write_text(str(days * 86400))
        made.replace(self._path)


def on_path(folder: Path) -> str:
    """Return the value of PYTHONPATH for the programs."""
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))
