"""What an agent and its commands say, as it may stand on a terminal."""

from __future__ import annotations

import difflib
import re

from accord.model.tools import Diff

__all__ = ("diff_lines", "finished", "one_line", "printable", "tail")

TAIL_BYTES = 16 * 1024  # of an output that are looked at for its last lines

# What would move the cursor, or show text in another order than it has; tabs and line ends stay.
_CONTROLS = {
    code: None
    for code in (*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    if chr(code) not in "\t\n"
}
# Colours, titles and the like, as programs write them for terminals.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")


def printable(text: str) -> str:
    """Return a text of the agent's without what a terminal would obey."""
    return text.translate(_CONTROLS)


def one_line(text: str) -> str:
    """Return a text of the agent's in one line: what it says cannot pass for what we say."""
    return " ".join(printable(text).split())


def tail(output: bytes | bytearray | str, most: int) -> tuple[list[str], bool]:
    """Return the last lines of an output, and whether there were more.

    Of a line that was written over again and again, as a bar of progress is, the last state counts.
    """
    data = output.encode("utf-8", "replace") if isinstance(output, str) else output
    text = bytes(data[-TAIL_BYTES:]).decode("utf-8", "replace")
    lines = [
        printable(line.rstrip("\r").rpartition("\r")[2]).rstrip()
        for line in _ESCAPES.sub("", text).rstrip().split("\n")
    ]
    if lines == [""]:
        return [], False
    return lines[-most:], len(lines) > most or len(data) > TAIL_BYTES


def finished(text: str) -> int:
    """Return how much of a Markdown text is over: up to a blank line outside code."""
    end = 0
    at = 0
    fenced = False
    for line in text.splitlines(keepends=True):
        at += len(line)
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not line.strip() and not fenced and line.endswith("\n"):
            end = at
    return end


def diff_lines(diff: Diff) -> list[tuple[str, str]]:
    """Return the lines of a diff, each with its style."""
    if diff.patch is not None:
        lines = diff.patch.splitlines()
    else:
        lines = list(
            difflib.unified_diff(
                (diff.old or "").splitlines(),
                (diff.new or "").splitlines(),
                diff.path if diff.old is not None else "/dev/null",
                diff.path if diff.new is not None else "/dev/null",
                lineterm="",
            )
        )
    return [(printable(line), _style(line)) for line in lines]


def _style(line: str) -> str:
    if line.startswith(("+++", "---", "diff ")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
