"""The lines below all others at a terminal: what is unfinished, runs or is planned; a spinner."""

from __future__ import annotations

import time
from collections.abc import Sequence

from accord.cli.rows import Row, fold
from accord.cli.safe_text import one_line, printable
from accord.cli.terminal_output import Paper
from accord.cli.tool_rows import plan_rows
from accord.client.events import Plan

__all__ = ("Tail",)

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
LIVE_LINES = 8  # of a tool call that runs
PLAN_LINES = 8
MOST_DRAWN = 8 * 1024  # characters of a block that are drawn as Markdown before it is finished
ROOMY = 14  # lines of a terminal that has room for blank ones


class Tail:
    """Draws what stands below the lines that are written."""

    def __init__(self, paper: Paper) -> None:
        self.doing = "working"
        self.hint = ""  # what the agent wrote to stderr last
        self._paper = paper
        self._began_s = time.monotonic()

    def drawn(
        self, text: str, thought: str, running: Sequence[Sequence[Row]], plans: Sequence[Plan]
    ) -> list[str]:
        """Return the lines, fewer than the terminal has."""
        paper = self._paper
        room = max(paper.size[1] - 2, 1)
        status = [self._status(thought)]
        planned: list[str] = []
        for plan in plans:
            if plan.markdown is None:
                planned += paper.rows(plan_rows(plan, PLAN_LINES))
        calls: list[str] = []
        for rows in running:
            lines = paper.rows(rows)
            calls += lines if len(lines) <= LIVE_LINES else [lines[0], *lines[1 - LIVE_LINES :]]
        left = room - len(status)
        planned = planned[: left // 2]
        left -= len(planned)
        calls = calls[-max(left - 3, 1) :] if left > 1 else []
        left -= len(calls)
        said = self._unfinished(text)
        said = said[-left:] if left > 0 else []
        sections = [section for section in (said, calls, planned, status) if section]
        blank = [""] if room >= ROOMY else []
        drawn = list(blank) if sections[0] is not status or room >= ROOMY else []
        for number, section in enumerate(sections):
            drawn += [*(blank if number else []), *section]
        return drawn[-room:]

    def _unfinished(self, text: str) -> list[str]:
        if not text.strip():
            return []
        paper = self._paper
        if len(text) > MOST_DRAWN:
            return paper.folded(text[-MOST_DRAWN:], paper.width)
        from accord.cli.markdown import markdown_lines

        return markdown_lines(paper, text, paper.width)

    def _status(self, thought: str) -> str:
        passed_s = time.monotonic() - self._began_s
        frame = FRAMES[int(passed_s * 10) % len(FRAMES)]
        doing = self.doing
        if self.hint:
            doing = f"{doing} · {self.hint}"
        elif thought.strip():
            last = one_line(printable(thought[-400:]).strip().rpartition("\n")[2])
            doing = f"thinking · {last}"
        line = f"{frame} {int(passed_s)}s {doing}"
        return self._paper.rows([Row(fold(line, self._paper.width)[0], "dim")])[0]
