"""How a change of a text is put into exact replacements that fit one place alone."""

from __future__ import annotations

import re
from typing import Any

__all__ = ("insertion", "removal", "word_edits")

_FAR = 40  # lines around a change that may be needed to tell it from others

Edit = dict[str, Any]


def insertion(text: str, line: int, added: str) -> Edit:
    """Return the edit that puts lines before a line, counted from 1; behind the last at the end.

    The text is not empty.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines()
    block = added.removesuffix("\n").replace("\r\n", "\n").replace("\n", newline)
    if line > len(lines):
        old = _unique(text, lines, len(lines) - 1, len(lines), newline, up=True)
        return {"old": old, "new": old + newline + block}
    old = _unique(text, lines, line - 1, line, newline, up=False)
    return {"old": old, "new": block + newline + old}


def _unique(text: str, lines: list[str], first: int, last: int, newline: str, *, up: bool) -> str:
    """Return lines first to last with as many neighbours on one side as make them unique."""
    while True:
        block = newline.join(lines[first:last])
        if block and text.count(block) == 1:
            return block
        if up and first > 0 and last - first < _FAR:
            first -= 1
        elif not up and last < len(lines) and last - first < _FAR:
            last += 1
        else:
            return text.removesuffix(newline) if up else text


def removal(text: str, first: int, last: int) -> Edit:
    """Return the edit that takes lines out, counted from 1, both included."""
    lines = text.splitlines(keepends=True)
    before, after = first - 1, last
    while text.count("".join(lines[before:after])) > 1 and (before > 0 or after < len(lines)):
        before, after = max(0, before - 1), min(len(lines), after + 1)
    return {
        "old": "".join(lines[before:after]),
        "new": "".join(lines[before : first - 1]) + "".join(lines[last:after]),
    }


def word_edits(text: str, old: str, new: str) -> tuple[list[Edit], int]:
    """Return the edits that rename a word wherever it stands by itself, and how often it does."""
    word = re.compile(rf"\b{re.escape(old)}\b")
    times = len(word.findall(text))
    if times == text.count(old):
        return ([{"old": old, "new": new, "all": times > 1}] if times else []), times
    lines = text.splitlines(keepends=True)
    changed = [word.sub(lambda _: new, line) for line in lines]
    edits: list[Edit] = []
    done = 0
    for at, line in enumerate(lines):
        if at < done or line == changed[at]:
            continue
        first, done = _span(text, lines, at, done)
        edits.append({"old": "".join(lines[first:done]), "new": "".join(changed[first:done])})
    if _fit(text, edits, "".join(changed)):
        return edits, times
    return [{"old": text, "new": "".join(changed)}], times


def _span(text: str, lines: list[str], at: int, done: int) -> tuple[int, int]:
    first, last = at, at + 1
    while text.count("".join(lines[first:last])) > 1 and last - first < _FAR:
        if first > done:
            first -= 1
        if last < len(lines):
            last += 1
        elif first <= done:
            break
    return first, last


def _fit(text: str, edits: list[Edit], wanted: str) -> bool:
    """Return whether the edits, one after the other, give what is wanted."""
    for edit in edits:
        if text.count(edit["old"]) != 1:
            return False
        text = text.replace(edit["old"], edit["new"])
    return text == wanted
