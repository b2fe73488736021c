"""The lines below the permanent output: unfinished text, running tool calls, plan, spinner."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from accord.client.events import Plan
from accord_terminal.toolkit.rows import Row
from accord_terminal.toolkit.safe_text import one_line, printable
from accord_terminal.toolkit.tool_rows import plan_rows

if TYPE_CHECKING:
    from accord_terminal.toolkit.writer import Writer


FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
LIVE_LINES = 8  # of a running tool call
PLAN_LINES = 8
MAX_MARKDOWN_CHARACTERS = 8 * 1024  # a longer unfinished block is shown as plain text
SPACIOUS_LINES = 14  # a terminal with fewer lines gets no blank lines


class LiveRegion:
    """Renders the lines that the next write replaces."""

    def __init__(self, writer: Writer, markdown_lines: Callable[[str], list[str]]) -> None:
        self.activity = "working"
        self.stderr_hint = ""  # the agent's last line of stderr
        self._writer = writer
        self._markdown_lines = markdown_lines
        self._started_s = time.monotonic()

    def render(
        self, text: str, thought: str, running: Sequence[Sequence[Row]], plans: Sequence[Plan]
    ) -> list[str]:
        """Return the lines; there are fewer than the terminal has."""
        writer = self._writer
        room = max(writer.size[1] - 2, 1)
        status = [self._status_line(thought)]
        planned: list[str] = []
        for plan in plans:
            if plan.markdown is None:
                planned += writer.render_rows(plan_rows(plan, PLAN_LINES))
        calls: list[str] = []
        for rows in running:
            lines = writer.render_rows(rows)
            calls += lines if len(lines) <= LIVE_LINES else [lines[0], *lines[1 - LIVE_LINES :]]
        left = room - len(status)
        planned = planned[: left // 2]
        left -= len(planned)
        calls = calls[-max(left - 3, 1) :] if left > 1 else []
        left -= len(calls)
        text_lines = self._text_lines(text)
        text_lines = text_lines[-left:] if left > 0 else []
        sections = [section for section in (text_lines, calls, planned, status) if section]
        blank = [""] if room >= SPACIOUS_LINES else []
        drawn = list(blank) if sections[0] is not status or room >= SPACIOUS_LINES else []
        for number, section in enumerate(sections):
            drawn += [*(blank if number else []), *section]
        return drawn[-room:]

    def _text_lines(self, text: str) -> list[str]:
        if not text.strip():
            return []
        writer = self._writer
        if len(text) > MAX_MARKDOWN_CHARACTERS:
            return writer.fold_text(text[-MAX_MARKDOWN_CHARACTERS:], writer.width)
        return self._markdown_lines(text)

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
        return self._writer.render_rows([Row(self._writer.cut_line(line), "dim")])[0]
