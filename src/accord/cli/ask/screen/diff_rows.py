"""Diffs as rows with line numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from accord.cli.ask.safe_text import printable
from accord.cli.ask.screen.rows import Row
from accord.types.git_patch import unified_diff
from accord.types.tool_calls import Diff

__all__ = ("diff_counts", "diff_rows")

MAX_COMPARED = 4_000_000  # pairs of lines; a larger change is shown as one hunk
_SHOWN_HEADERS = ("rename ", "Binary ")  # of a git patch
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,\d+)? \+(\d{1,9})")


def diff_rows(diff: Diff) -> Iterator[Row]:
    """Yield the lines of a diff as rows with line numbers, without the file header."""
    old, new = 0, 0
    head = True  # before the first hunk of a file
    for line in _lines_of(diff):
        sign = line[:1]
        if line.startswith("diff "):
            old, new, head = 0, 0, True
        elif hunk := _HUNK.match(line):
            if not head:
                yield Row("⋯", "dim", " " * 8)
            old, new, head = int(hunk[1]), int(hunk[2]), False
        elif (head and line.startswith(_SHOWN_HEADERS)) or sign == "\\":
            yield Row(printable(line), "dim", " " * 8)
        elif not head or (sign in ("+", "-") and not line.startswith(("---", "+++"))):
            number = old if sign == "-" else new
            style = {"+": "green", "-": "red"}.get(sign, "")
            lead = f"{number or '':>5} {sign or ' '} "
            yield Row(
                printable(line[1:]), style, lead, lead_style=style or "dim", whole_words=False
            )
            old += sign != "+"
            new += sign != "-"


def diff_counts(diff: Diff) -> tuple[int, int]:
    """Return the number of added and of removed lines."""
    signs = [row.lead[6:7] for row in diff_rows(diff)]
    return signs.count("+"), signs.count("-")


def _lines_of(diff: Diff) -> Iterator[str]:
    """Yield the lines of the patch; without a patch, compare the two texts."""
    if diff.patch is not None:
        yield from diff.patch.splitlines()
        return
    old, new = (diff.old or "").splitlines(), (diff.new or "").splitlines()
    if len(old) * len(new) <= MAX_COMPARED:
        yield from unified_diff(old, new)
        return
    same = _common_prefix(old, new)
    after = _common_prefix(old[same:][::-1], new[same:][::-1])
    yield f"@@ -{same + 1} +{same + 1} @@"
    yield from (f"-{line}" for line in old[same : len(old) - after])
    yield from (f"+{line}" for line in new[same : len(new) - after])


def _common_prefix(one: list[str], other: list[str]) -> int:
    """Return the number of equal lines at the beginning."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
