"""The lines of a diff with their numbers, from its texts or its patch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from accord.types.git_patch import unified_diff
from accord.types.tool_calls import Diff

MAX_COMPARED = 4_000_000  # pairs of lines; a larger change is one hunk
_SHOWN_HEADERS = ("rename ", "Binary ")  # of a git patch
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,\d+)? \+(\d{1,9})")


class DiffLine(Struct, frozen=True):
    """A line of a diff: added, removed, the same, a gap between hunks, or a remark.

    `old` and `new` are its numbers before and after the change, None if it has none there.
    """

    sign: Literal["+", "-", " ", "gap", "remark"]
    text: str
    old: int | None = None
    new: int | None = None


def diff_lines(diff: Diff, *, lines_before: int | None = 0) -> Iterator[DiffLine]:
    """Yield the lines of a diff, without the headers of files.

    `lines_before` is added to the numbers: the diff of an excerpt counts from 1. With None, the
    lines have no numbers.
    """
    old, new = 0, 0
    head = True  # before the first hunk of a file
    for line in _source_lines(diff):
        sign = line[:1]
        if line.startswith("diff "):
            old, new, head = 0, 0, True
        elif hunk := _HUNK.match(line):
            if not head:
                yield DiffLine("gap", "")
            if lines_before is not None:
                old, new = (int(number) + lines_before for number in hunk.groups())
            head = False
        elif (head and line.startswith(_SHOWN_HEADERS)) or sign == "\\":
            yield DiffLine("remark", line)
        elif not head or (sign in ("+", "-") and not line.startswith(("---", "+++"))):
            match sign:
                case "+":
                    yield DiffLine("+", line[1:], None, new or None)
                case "-":
                    yield DiffLine("-", line[1:], old or None)
                case _:
                    yield DiffLine(" ", line[1:], old or None, new or None)
            if lines_before is not None:
                old += sign != "+"
                new += sign != "-"


def _source_lines(diff: Diff) -> Iterator[str]:
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
