"""The lines of an agent that are not messages: counted, and recorded while they are few."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from accord.text.excerpt import one_line

_ALL = 200  # lines that are recorded, however fast they come
_INTERVAL_S = 0.1  # between two recorded lines after them
_SHOWN = 40  # characters


class StrangeLines:
    """Counts the lines of one process; `is_recorded` chooses those that the timeline shows.

    A program that is not an agent may write a million lines in a second. `echoes` is set if it
    sends back what it receives.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self.count: int = 0
        self.recorded: int = 0
        self.first: str = ""  # of the lines, for people
        self.echoes: bool = False
        self._clock = clock
        self._last = 0.0  # the time of the newest recorded line

    def is_recorded(self, line: bytes | bytearray) -> bool:
        """Count a line; return whether to record it."""
        if not line.strip():
            return False
        self.count += 1
        if self.recorded >= _ALL:
            now = self._clock()
            if now - self._last < _INTERVAL_S:
                return False
            self._last = now
        if not self.recorded:
            self.first = one_line(line[: 4 * _SHOWN].decode("utf-8", "replace"), _SHOWN)
        self.recorded += 1
        return True
