"""Keeps what an agent writes to stderr, and its lines on stdout that are not JSON."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ("AgentOutput",)

MAX_LINES = 5  # the last ones of stderr, the first ones of stdout
MAX_LINE_CHARACTERS = 2000


class AgentOutput:
    """Keeps some lines for the report of a failure, and passes on those of stderr."""

    def __init__(self, on_stderr: Callable[[str], None]) -> None:
        self.stderr: list[str] = []
        self.noise: list[str] = []  # on stdout
        self._on_stderr = on_stderr

    def add_stderr(self, line: str) -> None:
        """Add a line of stderr."""
        if line.strip():
            line = line[:MAX_LINE_CHARACTERS]
            self.stderr = [*self.stderr[1 - MAX_LINES :], line]
            self._on_stderr(line)

    def add_noise(self, line: str) -> None:
        """Add a line of stdout that is not JSON."""
        if len(self.noise) < MAX_LINES:
            self.noise.append(line[:MAX_LINE_CHARACTERS])
