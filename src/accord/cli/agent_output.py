"""What an agent wrote where no client reads: its stderr, and lines on stdout that are not JSON."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ("AgentOutput",)

MAX_LAST_LINES = 5  # lines
MAX_LINE_CHARACTERS = 2000  # characters of a line


class AgentOutput:
    """Keeps the last lines, and passes on those of stderr."""

    def __init__(self, on_stderr: Callable[[str], None]) -> None:
        self._on_stderr = on_stderr
        self._stderr: list[str] = []
        self._noise: list[str] = []

    def add_stderr(self, line: str) -> None:
        """Take a line of stderr."""
        if line.strip():
            line = line[:MAX_LINE_CHARACTERS]
            self._stderr = [*self._stderr[1 - MAX_LAST_LINES :], line]
            self._on_stderr(line)

    def add_noise(self, line: str) -> None:
        """Take a line of stdout that is not JSON."""
        if len(self._noise) < MAX_LAST_LINES:
            self._noise.append(line[:MAX_LINE_CHARACTERS])

    def failure_lines(self, why: str) -> list[str]:
        """Return what helps to understand a failure, in addition to what is said already."""
        from accord.cli.safe_text import printable

        lines: list[str] = []
        if self._noise:
            lines.append("  on its stdout, which is for JSON alone:")
            lines += (f"    {printable(line)}" for line in self._noise)
        if self._stderr and not (len(self._stderr) == 1 and self._stderr[0].strip() in why):
            lines.append("  on its stderr, at last:")
            lines += (f"    {printable(line)}" for line in self._stderr)
        return lines
