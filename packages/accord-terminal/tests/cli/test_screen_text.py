"""`accord ask` at a terminal shows the agent's text exactly once, for any chunks."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator

import pytest

from accord.client.events import Event, Plan, Text, Thought, ToolCall
from accord.types.session import PlanEntry
from accord.types.tool_calls import Diff
from accord_terminal.ask.views import rich_view
from cli.emulator import TerminalFile

WORD = re.compile(r"\bw\d{4}\b")
# Columns and lines of the terminal, and the longest piece of a text.
SIZES = [
    *((20, 6, 1), (20, 6, 400), (31, 10, 9), (60, 24, 400)),
    *((80, 24, 1), (80, 24, 9), (120, 40, 9), (200, 50, 400)),
]


class Document:
    """Random Markdown of unique words."""

    def __init__(self, seed: int, *, tables: bool) -> None:
        self.random = random.Random(seed)
        self._next = 0
        self._tables = tables

    def words(self, most: int) -> str:
        first = self._next
        self._next += self.random.randint(1, most)
        return " ".join(f"w{n:04}" for n in range(first, self._next))

    def text(self, blocks: int) -> str:
        return "\n\n".join(self.block() for _ in range(blocks)) + self.random.choice(["", "\n"])

    def block(self) -> str:
        kinds = [self.words_block, self.heading, self.items, self.code, self.quote, self.steps]
        return self.random.choice([*kinds, self.table] if self._tables else kinds)()

    def words_block(self) -> str:
        ends = ["\n", " ", "  \n"]
        parts = [self.words(12) for _ in range(self.random.randint(1, 4))]
        return "".join(part + self.random.choice(ends) for part in parts).rstrip()

    def heading(self) -> str:
        return f"{'#' * self.random.randint(1, 4)} {self.words(4)}"

    def items(self) -> str:
        between = self.random.choice(["\n", "\n\n"])
        return between.join(
            f"- **{self.words(3)}** {self.words(9)}\n  - `{self.words(3)}`"
            for _ in range(self.random.randint(1, 5))
        )

    def steps(self) -> str:
        between = self.random.choice(["\n", "\n\n"])
        return between.join(
            f"{n}. {self.words(9)}\n\n   {self.words(5)}"
            for n in range(1, self.random.randint(2, 12))
        )

    def code(self) -> str:
        lines = [f"    {self.words(5)}" for _ in range(self.random.randint(1, 30))]
        return "\n".join(["```python", *lines[:3], "", "# no heading", *lines[3:], "```"])

    def quote(self) -> str:
        return "\n".join(f"> {self.words(8)}" for _ in range(self.random.randint(1, 4)))

    def table(self) -> str:
        head = f"| {self.words(1)} | {self.words(1)} |"
        rows = [f"| {self.words(2)} | {self.words(2)} |" for _ in range(self.random.randint(1, 5))]
        return "\n".join([head, "|---|---|", *rows])


def pieces(text: str, size: int, chance: random.Random) -> Iterator[str]:
    at = 0
    while at < len(text):
        step = chance.randint(1, size)
        yield text[at : at + step]
        at += step


def turn(document: Document, size: int) -> Iterator[Event]:
    """Yield events of an agent: a plan, then text and tool calls."""
    chance = document.random
    steps = chance.randint(1, 4)
    for step in range(steps):
        entries = [PlanEntry("plan", "completed" if n < step else "pending") for n in range(steps)]
        yield Plan(tuple(entries))
        for piece in pieces(document.text(chance.randint(1, 6)), size, chance):
            yield Text(piece, f"m{step}")
        title = document.words(3)
        for status in ("pending", "in_progress", "completed"):
            yield Thought("hidden")
            content = (Diff("a", None, document.words(1)),) if status == "completed" else ()
            yield ToolCall(id=f"t{step}", title=title, kind="edit", status=status, content=content)


def terminal_of(columns: int, lines: int, monkeypatch: pytest.MonkeyPatch) -> TerminalFile:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", str(lines))
    monkeypatch.setenv("TERM", "xterm-256color")
    file = TerminalFile(columns, lines)
    monkeypatch.setattr(sys, "stdout", file)
    return file


@pytest.mark.parametrize(("columns", "lines", "size"), SIZES)
def test_text_is_on_the_screen_exactly_once(
    columns: int, lines: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = terminal_of(columns, lines, monkeypatch)
    document = Document(columns * 1000 + size, tables=columns >= 60)
    screen = rich_view()
    events = list(turn(document, size))
    for event in events:
        screen.show_event(event)
        if document.random.random() < 20 / len(events):
            screen.refresh()
            seen = [int(word[1:]) for word in WORD.findall(terminal.emulator.text)]
            assert seen == sorted(set(seen))  # once each, and in order
    screen.close()
    shown = WORD.findall(terminal.emulator.text)
    assert shown == [f"w{n:04}" for n in range(len(shown))]
    assert f"w{len(shown):04}" == document.words(1).split()[0]  # all words are shown
    assert "hidden" not in terminal.emulator.text
    assert terminal.emulator.shows_cursor
