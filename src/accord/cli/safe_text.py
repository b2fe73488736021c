"""What an agent and its commands say, in a form that a terminal can show and nothing hides in."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from accord.cli.rows import Row
from accord.text.excerpt import excerpt, hidden_removed
from accord.types.tool_calls import Diff

__all__ = (
    "GUTTER",
    "diff_counts",
    "diff_rows",
    "last_lines",
    "one_line",
    "printable",
    "relative_path",
    "relative_title",
)

TAIL_BYTES = 16 * 1024  # of an output that are looked at for its last lines
MAX_COMPARED = 4_000_000  # pairs of lines; a larger change is shown as one
MAX_TITLE = 300  # characters of what has to fit in a line or two
GUTTER = "  │ "

# Colours, titles and the like, as programs write them for terminals.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
_WORTH_SHOWING = ("rename ", "Binary ")  # of a git patch's head
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,\d+)? \+(\d{1,9})")


def printable(text: str) -> str:
    """Return a text of the agent's without what a terminal would obey, and without fillers."""
    return hidden_removed(text)


def one_line(text: str, max_length: int = MAX_TITLE) -> str:
    """Return a text of the agent's in one line: it cannot be taken for what we say."""
    # U+2800 has a use in pictures of dots only.
    return excerpt(
        " ".join(printable(text[: 4 * max_length]).replace("\u2800", " ").split()), max_length
    )


def relative_path(path: str, cwd: str | None) -> str:
    """Return a path as seen from the directory of the session, if it is inside."""
    if cwd is None or not Path(path).is_absolute():
        return path
    inside = os.path.relpath(path, cwd)
    return path if inside.startswith(os.pardir) else inside


def relative_title(title: str, cwd: str | None) -> str:
    """Return a title in one line, with the paths in it as seen from the session's directory."""
    title = one_line(title)
    if cwd is None or len(cwd) < 2:
        return title
    return re.sub(rf"(?<![\w./~-]){re.escape(cwd)}[/\\](?=[^\s/])", "", title)


def last_lines(output: bytes | bytearray | str, max_lines: int) -> tuple[list[str], bool]:
    """Return the last lines of an output, and whether there were more.

    Of a line that was written over again and again, such as a progress bar, the last state counts.
    """
    if isinstance(output, str):
        output = output[-TAIL_BYTES:].encode("utf-8", "replace")
    text = bytes(output[-TAIL_BYTES:]).decode("utf-8", "replace")
    lines = [
        printable(line.rstrip("\r").rpartition("\r")[2]).rstrip()
        for line in _ESCAPES.sub("", text).rstrip().split("\n")
    ]
    if lines == [""]:
        return [], False
    return lines[-max_lines:], len(lines) > max_lines or len(output) >= TAIL_BYTES


def diff_rows(diff: Diff) -> Iterator[Row]:
    """Yield the lines of a diff as rows with line numbers, without the lines that name its file."""
    old, new = 0, 0
    head = True  # before the first hunk of a file
    for line in _lines_of(diff):
        sign = line[:1]
        if line.startswith("diff "):
            old, new, head = 0, 0, True
        elif found := _HUNK.match(line):
            if not head:
                yield Row("⋯", "dim", " " * 8)
            old, new, head = int(found[1]), int(found[2]), False
        elif (head and line.startswith(_WORTH_SHOWING)) or sign == "\\":
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
    """Return how many lines a diff adds and removes."""
    signs = [row.lead[6:7] for row in diff_rows(diff)]
    return signs.count("+"), signs.count("-")


def _lines_of(diff: Diff) -> Iterator[str]:
    """Yield the lines of a diff, from the first hunk on where we make it."""
    if diff.patch is not None:
        yield from diff.patch.splitlines()
        return
    old, new = (diff.old or "").splitlines(), (diff.new or "").splitlines()
    if len(old) * len(new) <= MAX_COMPARED:
        lines = difflib.unified_diff(old, new, lineterm="")
        next(lines, None)  # these two name no file
        next(lines, None)
        yield from lines
        return
    same = _common_prefix(old, new)
    after = _common_prefix(old[same:][::-1], new[same:][::-1])
    yield f"@@ -{same + 1} +{same + 1} @@"
    yield from (f"-{line}" for line in old[same : len(old) - after])
    yield from (f"+{line}" for line in new[same : len(new) - after])


def _common_prefix(one: list[str], other: list[str]) -> int:
    """Return how many lines are the same from the beginning."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
