"""What may stand on a terminal: Markdown in pieces, the end of an output, diffs."""

from __future__ import annotations

import pytest

from accord.cli.shown import diff_lines, finished, printable, tail
from accord.model.tools import Diff


@pytest.mark.parametrize(
    ("output", "lines", "more"),
    [
        (b"", [], False),
        (b"\n\n", [], False),
        (b"one\ntwo\r\n", ["one", "two"], False),
        (b"1\n2\n3\n4\n", ["2", "3", "4"], True),
        (b"\x1b[32mgreen\x1b[0m \x1b]0;title\x07end", ["green end"], False),
        (b" 10%\r 50%\r100%\r\nover", ["100%", "over"], False),
        (b"\x1b[2J\x08bell\x07", ["bell"], False),
        ("Grüße ✓".encode(), ["Grüße ✓"], False),
        (b"\xff", ["\ufffd"], False),
        ("text", ["text"], False),
    ],
)
def test_end_of_an_output(output: bytes | str, lines: list[str], more: bool) -> None:
    assert tail(output, 3) == (lines, more)


def test_of_a_long_output_only_the_end_is_looked_at() -> None:
    lines, more = tail(bytearray(b"x" * 80 + b"\n") * 100_000, 2)
    assert (lines, more) == (["x" * 80] * 2, True)


def test_markdown_is_finished_at_blank_lines_outside_of_code() -> None:
    assert finished("one\n\ntwo") == len("one\n\n")
    assert finished("```\na\n\nb") == 0
    assert finished("```\na\n\nb\n```\n\nend") == len("```\na\n\nb\n```\n\n")
    assert finished("one\n ") == 0


def test_nothing_moves_the_cursor() -> None:
    assert printable("pay \u202eevil\u2066") == "pay evil"
    assert printable("a\x1b[2Jb\x9b1m\r\tc\nd\x7f") == "a[2Jb1m\tc\nd"


def test_diff_is_coloured() -> None:
    styled = diff_lines(Diff("/a", "one\ntwo\n", "one\nthree\n"))
    assert ("-two", "red") in styled
    assert ("+three", "green") in styled
    assert diff_lines(Diff("/a", None, "x"))[0] == ("--- /dev/null", "bold")
    assert diff_lines(Diff("/a", patch="+x")) == [("+x", "green")]
