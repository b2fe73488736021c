"""The changes of a file as text: its lines with their numbers, and git patches."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from accord.types.tool_calls import Diff

# Git patches have absolute paths and no prefixes (R-TOOL-24).
# `difflib` is imported when a change is shown: it is slow to import.

_MAX_PAIRS = 200_000  # of equal lines; beyond, the whole text is shown as replaced
_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}


def git_patch(path: str, old: str | None, new: str | None) -> str:
    """Return the patch of one file; None means that the file does not exist."""
    shown = _quoted(path)
    lines = [f"diff --git {shown} {shown}"]
    if old is None:
        lines.append("new file mode 100644")
    if new is None:
        lines.append("deleted file mode 100644")
    hunks = _hunks(old or "", new or "")
    if hunks:
        # Like git, end an unquoted path that contains a space with a tab, so that it can be parsed.
        label = f"{shown}\t" if " " in shown and not shown.startswith('"') else shown
        lines.append("--- /dev/null" if old is None else f"--- {label}")
        lines.append("+++ /dev/null" if new is None else f"+++ {label}")
        lines += hunks
    return "\n".join(lines) + "\n"


def unified_diff(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a unified diff without its header. The time grows with both lengths."""
    from difflib import unified_diff as compare

    lines = compare(old, new, lineterm="")
    next(lines, None)  # the header
    next(lines, None)
    yield from lines


def _hunks(old: str, new: str) -> list[str]:
    before, after = _lines(old), _lines(new)
    lines: list[str] = []
    for group in _grouped(before, after):
        first, last = group[0], group[-1]
        here, there = _range(first[1], last[2]), _range(first[3], last[4])
        lines.append(f"@@ -{here} +{there} @@")
        for kind, begin, end, new_begin, new_end in group:
            if kind == "equal":
                for line in before[begin:end]:
                    _add(" ", line, lines)
                continue
            for line in before[begin:end]:
                _add("-", line, lines)
            for line in after[new_begin:new_end]:
                _add("+", line, lines)
    return lines


def _add(sign: str, line: str, lines: list[str]) -> None:
    if line.endswith("\n"):
        lines.append(f"{sign}{line[:-1]}")
    else:
        lines += [f"{sign}{line}", "\\ No newline at end of file"]


def _range(begin: int, end: int) -> str:
    """Return the line range of a hunk in the format of unified diffs."""
    length = end - begin
    if length == 1:
        return str(begin + 1)
    return f"{begin if length == 0 else begin + 1},{length}"


def _grouped(before: list[str], after: list[str]) -> list[list[tuple[str, int, int, int, int]]]:
    """Return the changes and their context lines, in groups that become hunks."""
    from difflib import SequenceMatcher

    start, shorter = 0, min(len(before), len(after))
    while start < shorter and before[start] == after[start]:
        start += 1
    ending = 0
    while ending < shorter - start and before[-1 - ending] == after[-1 - ending]:
        ending += 1
    end, new_end = len(before) - ending, len(after) - ending
    old_part, new_part = before[start:end], after[start:new_end]
    if _pairs(old_part, new_part) > _MAX_PAIRS:
        changes = [("replace", 0, len(old_part), 0, len(new_part))]
    else:
        changes = SequenceMatcher(None, old_part, new_part).get_opcodes()
    found = [("equal", 0, start, 0, start)] if start else []
    found += [(kind, a + start, b + start, c + start, d + start) for kind, a, b, c, d in changes]
    if ending:
        found.append(("equal", end, len(before), new_end, len(after)))
    whole: SequenceMatcher[str] = SequenceMatcher(None, [], [])
    whole.opcodes = found  # type: ignore[assignment]  # instead of an unbounded search
    return [list(group) for group in whole.get_grouped_opcodes()] if changes else []


def _pairs(old: list[str], new: list[str]) -> int:
    """Return the number of pairs of equal lines, which bounds the work of `difflib`."""
    counts = Counter(new)
    # In long texts `difflib` ignores frequent lines.
    most = len(new) // 100 + 1 if len(new) >= 200 else len(new)
    return sum(count for line in old if (count := counts[line]) <= most)


def _lines(text: str) -> list[str]:
    """Split at line feeds only, like git."""
    parts = text.split("\n")
    lines = [f"{part}\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def _quoted(path: str) -> str:
    """Return a path in git's format: quoted if it has bytes other than printable ASCII."""
    data = path.encode("utf-8", "surrogateescape")
    if all(31 < byte < 127 and byte not in (34, 92) for byte in data):
        return path
    return '"' + "".join(_escaped(byte) for byte in data) + '"'


def _escaped(byte: int) -> str:
    if byte in _ESCAPES:
        return f"\\{_ESCAPES[byte]}"
    return chr(byte) if 31 < byte < 127 else f"\\{byte:03o}"


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
