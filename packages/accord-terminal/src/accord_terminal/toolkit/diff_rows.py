"""Diffs as rows with line numbers."""

from __future__ import annotations

from collections.abc import Iterator

from accord.types.diffs import diff_lines
from accord.types.tool_calls import Diff
from accord_terminal.toolkit.rows import Row
from accord_terminal.toolkit.safe_text import printable


def diff_rows(diff: Diff, lines_before: int | None = 0) -> Iterator[Row]:
    """Yield the lines of a diff as rows with line numbers, without the file header."""
    for line in diff_lines(diff, lines_before=lines_before):
        if line.sign == "gap":
            yield Row("⋯", "dim", " " * 8)
        elif line.sign == "remark":
            yield Row(printable(line.text), "dim", " " * 8)
        else:
            style = {"+": "green", "-": "red"}.get(line.sign, "")
            number = line.old if line.sign == "-" else line.new
            lead = f"{number or '':>5} {line.sign} "
            yield Row(
                printable(line.text), style, lead, lead_style=style or "dim", whole_words=False
            )


def diff_counts(diff: Diff) -> tuple[int, int]:
    """Return the number of added and of removed lines."""
    signs = [line.sign for line in diff_lines(diff)]
    return signs.count("+"), signs.count("-")
