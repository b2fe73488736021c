"""Markdown at a terminal: links show their targets, and no text is lost at any width."""

from __future__ import annotations

import random
import re
import sys

import pytest

from accord_terminal.toolkit.markdown import markdown_lines
from accord_terminal.toolkit.terminal_output import TerminalWriter
from cli.emulator import TerminalFile

LINK = re.compile(r"\x1b\]8;[^;]*;([^\x1b]*)\x1b\\(.*?)\x1b\]8;;\x1b\\")


def lines_of(text: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stdout", TerminalFile(columns, 40))
    return markdown_lines(TerminalWriter(sys.stdout), text, columns)


def plain(lines: list[str]) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", LINK.sub(r"\2", "\n".join(lines)))


@pytest.mark.parametrize(
    ("text", "shown", "targets"),
    [
        ("[docs](https://evil.example/x)", "docs (https://evil.example/x)", []),
        ("<https://a.example/b>", "https://a.example/b", ["https://a.example/b"]),
        (
            "[https://a.example](https://a.example)",
            "https://a.example",
            ["https://a.example"],
        ),
        (
            "[https://good.example](https://evil.example)",
            "https://good.example (https://evil.example)",
            [],
        ),
        ("[**a** `b`](x.py#L3)", "a b (x.py#L3)", []),
        ("![alt](https://img.example/i.png)", "alt (https://img.example/i.png)", []),
        ("[![alt](i.png)](https://evil.example)", "alt (i.png) (https://evil.example)", []),
        ("[a][1]\n\n[1]: https://evil.example", "a (https://evil.example)", []),
        ("[a](<javascript:alert(1)>)", "[a](<javascript:alert(1)>)", []),
        ("<me@a.example>", "me@a.example", ["mailto:me@a.example"]),
    ],
)
def test_link_shows_its_target_unless_its_text_is_the_target(
    text: str, shown: str, targets: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = lines_of(text, 80, monkeypatch)
    assert plain(lines) == shown
    assert [target for target, _ in LINK.findall("\n".join(lines))] == targets


def test_plain_text_is_shown_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = lines_of(
        "Use List<String> or <b>bold</b> & \\* x\n\n<div>\nin it\n</div>", 80, monkeypatch
    )
    assert plain(lines) == "Use List<String> or <b>bold</b> & * x\n\n<div> in it </div>"


PARTS = [
    *("# a b", "- c\n  - d\n    - e", "1. f\n\n   g\n2. h", "> i\n> > j", "```py\nk = 1\n```"),
    *("~~l~~ **m** *n*", "| o | p |\n|---|:-:|\n| q r s t u v w | x y z |", "---", "[A](B)"),
    *("![C](D)", "<kbd>E</kbd>", "    F", "G  \nH", "**I", "`J", "| K |", "[L]: M", "\\", "语言"),
    "|a|b|c|d|e|f|g|h|\n|-|-|-|-|-|-|-|-|\n|1|2|3|4|5|6|7|8|",
]


@pytest.mark.parametrize("columns", [1, 3, 10, 20, 24, 40, 100])
def test_any_text_fits_the_width_without_loss(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(5):
        chance = random.Random(100 * columns + seed)
        parts = [chance.choice(PARTS) + chance.choice(["\n", "\n\n", " "]) for _ in range(12)]
        is_shown_at(columns, "".join(parts), monkeypatch)


def is_shown_at(columns: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = TerminalFile(max(columns, 2), 40)
    shown = plain(lines_of(text, columns, monkeypatch))
    for line in shown.split("\n"):
        terminal.write(line + "\n")
    for letter in set(re.findall(r"[A-KN-Z\u8bed\u8a00]", text)):
        assert shown.count(letter) >= text.count(letter) - text.count(f"[{letter}]:")
