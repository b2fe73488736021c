"""The lines below all others at a terminal: what is unfinished, runs or is planned; a spinner."""

from __future__ import annotations

import time
from collections.abc import Sequence

from accord.cli.rows import Row, fold
from accord.cli.safe_text import one_line, printable
from accord.cli.terminal_output import TerminalWriter
from accord.cli.tool_rows import plan_rows
from accord.client.events import Plan

__all__ = ("LiveRegion",)

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
LIVE_LINES = 8  # of a tool call that runs
PLAN_LINES = 8
MAX_MARKDOWN_CHARACTERS = (
    8 * 1024
)  # characters of a block that are drawn as Markdown before it is finished
SPACIOUS_LINES = 14  # lines of a terminal that has room for blank ones


class LiveRegion:
    """Draws what stands below the lines that are written."""

    def __init__(self, paper: TerminalWriter) -> None:
        self.activity = "working"
        self.stderr_hint = ""  # what the agent wrote to stderr last
        self._writer = paper
        self._started_s = time.monotonic()

    def render(
        self, text: str, thought: str, running: Sequence[Sequence[Row]], plans: Sequence[Plan]
    ) -> list[str]:
        """Return the lines, fewer than the terminal has."""
        paper = self._writer
        room = max(paper.size[1] - 2, 1)
        status = [self._status_line(thought)]
        planned: list[str] = []
        for plan in plans:
            if plan.markdown is None:
                planned += paper.render_rows(plan_rows(plan, PLAN_LINES))
        calls: list[str] = []
        for rows in running:
            lines = paper.render_rows(rows)
            calls += lines if len(lines) <= LIVE_LINES else [lines[0], *lines[1 - LIVE_LINES :]]
        left = room - len(status)
        planned = planned[: left // 2]
        left -= len(planned)
        calls = calls[-max(left - 3, 1) :] if left > 1 else []
        left -= len(calls)
        said = self._text_lines(text)
        said = said[-left:] if left > 0 else []
        sections = [section for section in (said, calls, planned, status) if section]
        blank = [""] if room >= SPACIOUS_LINES else []
        drawn = list(blank) if sections[0] is not status or room >= SPACIOUS_LINES else []
        for number, section in enumerate(sections):
            drawn += [*(blank if number else []), *section]
        return drawn[-room:]

    def _text_lines(self, text: str) -> list[str]:
        if not text.strip():
            return []
        paper = self._writer
        if len(text) > MAX_MARKDOWN_CHARACTERS:
            return paper.fold_text(text[-MAX_MARKDOWN_CHARACTERS:], paper.width)
        from accord.cli.markdown import markdown_lines

        return markdown_lines(paper, text, paper.width)

    def _status_line(self, thought: str) -> str:
        passed_s = time.monotonic() - self._started_s
        frame = FRAMES[int(passed_s * 10) % len(FRAMES)]
        doing = self.activity
        if self.stderr_hint:
            doing = f"{doing} · {self.stderr_hint}"
        elif thought.strip():
            last = one_line(printable(thought[-400:]).strip().rpartition("\n")[2])
            doing = f"thinking · {last}"
        line = f"{frame} {int(passed_s)}s {doing}"
        return self._writer.render_rows([Row(fold(line, self._writer.width)[0], "dim")])[0]
