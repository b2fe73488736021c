"""Moves the wall clock of every program that a test starts, by a number of seconds in a file."""

from __future__ import annotations

import datetime
import sys
import time
from pathlib import Path

import pytest

import forked

__all__ = ("MovedClock",)


class MovedClock:
    """The wall clock of the programs of a test; it can jump while they run."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder.mkdir()
        self._path = folder / "seconds"
        self._path.write_text("0")
        real_time, real = time.time, datetime.datetime

        class Moved(real):
            @classmethod
            def now(cls, tz: datetime.tzinfo | None = None) -> Moved:
                return real.now(tz) + datetime.timedelta(seconds=self._seconds())  # type: ignore[return-value]

        forked.fork_here(monkeypatch)
        monkeypatch.setattr(time, "time", lambda: real_time() + self._seconds())
        monkeypatch.setattr(datetime, "datetime", Moved)
        for name, module in [*sys.modules.items()]:
            if name.startswith("accord") and getattr(module, "datetime", None) is real:
                monkeypatch.setattr(module, "datetime", Moved)

    def jump(self, days: float) -> None:
        """Set the clock to the real time and so many days."""
        made = self._path.with_suffix(".new")
        made.write_text(str(days * 86400))
        made.replace(self._path)

    def _seconds(self) -> float:
        return float(self._path.read_text())
