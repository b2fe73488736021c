"""Text that is safe for a terminal: unfinished Markdown, the end of an output, diffs."""

from __future__ import annotations

import pytest

from accord.types.tool_calls import Diff
from accord_terminal.toolkit.markdown import finished_length
from accord_terminal.toolkit.text import (
    last_lines,
    one_line,
    printable,
    relative_path,
    relative_title,
)
from accord_terminal.toolkit.tool_rows import diff_rows


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
def test_last_lines_of_an_output_are_shown(
    output: bytes | str, lines: list[str], more: bool
) -> None:
    assert last_lines(output, 3) == (lines, more)


def test_only_the_end_of_a_long_output_is_read() -> None:
    lines, more = last_lines(bytearray(b"x" * 80 + b"\n") * 100_000, 2)
    assert (lines, more) == (["x" * 80] * 2, True)


@pytest.mark.parametrize(
    ("text", "over"),
    [
        ("one\n\ntwo", ""),  # the second paragraph can still change
        ("one\n\ntwo\n", "one\n\n"),
        ("```\na\n\nb", ""),
        ("```\na\n\nb\n```\n\nend\n", "```\na\n\nb\n```\n\n"),
        ("````\n```\n\n# a\n", ""),
        ("- one\n\n- two\n\n  more\n", ""),
        ("- one\n\nend\n", "- one\n\n"),
        ("one\n#", ""),
        ("one\n===\n", ""),
        ("# one\ntwo\n", "# one\n"),
        ("| a |\n|---|\n| b |\n", ""),
        ("one\n ", ""),
    ],
)
def test_all_markdown_blocks_except_the_last_are_finished(text: str, over: str) -> None:
    assert text[: finished_length(text)] == over


def test_printable_text_does_not_move_the_cursor() -> None:
    assert printable("pay \u202eevil\u2066") == "pay evil"
    assert printable("a\x1b[2Jb\x9b1m\r\tc\nd\x7f") == "a[2Jb1m\tc\nd"


def rows(diff: Diff) -> list[tuple[str, str]]:
    return [(row.plain, row.style) for row in diff_rows(diff)]


def test_diff_has_colours_and_line_numbers_and_no_header() -> None:
    assert rows(Diff("/a", "one\ntwo\n", "one\nthree\n")) == [
        ("    1   one", ""),
        ("    2 - two", "red"),
        ("    2 + three", "green"),
    ]
    assert rows(Diff("/a", None, "x")) == [("    1 + x", "green")]
    assert rows(Diff("/a", patch="+x")) == [("      + x", "green")]


def test_git_patch_is_shown_without_file_headers() -> None:
    patch = (
        "diff --git a/a b/b\nsimilarity index 90%\nrename from a\nrename to b\n--- a/a\n+++ b/b\n"
        "@@ -7 +7 @@\n-old\n+new\n\\ No newline at end of file\n@@ -20,2 +20,1 @@\n same\n-gone\n"
    )
    assert [text.strip() for text, _ in rows(Diff("/b", patch=patch))] == [
        "rename from a",
        "rename to b",
        "7 - old",
        "7 + new",
        "\\ No newline at end of file",
        "⋯",
        "20   same",
        "21 - gone",
    ]


def test_large_change_is_shown_without_comparing_all_lines() -> None:
    old = [f"{n % 7}" for n in range(20_000)]
    shown = rows(Diff("/a", "\n".join(old), "\n".join([*old[:50], "new", *old[60:]])))
    assert [text.strip() for text, _ in shown][-1] == "51 + new"
    assert len(shown) == 11


def test_path_is_relative_to_the_directory_of_the_session() -> None:
    assert relative_path("/home/me/p/src/a.py", "/home/me/p") == "src/a.py"
    assert relative_path("/home/me/password", "/home/me/p") == "/home/me/password"
    assert relative_path("a.py", "/home/me/p") == "a.py"
    assert relative_title("Edit /home/me/p/a.py", "/home/me/p") == "Edit a.py"
    assert relative_title("Edit `/home/me/p/a.py`", "/home/me/p") == "Edit `a.py`"
    assert relative_title("Edit /x/home/me/p/a.py", "/home/me/p") == "Edit /x/home/me/p/a.py"
    assert relative_title("Run make -C /home/me/p", "/home/me/p") == "Run make -C /home/me/p"


def test_title_is_truncated_and_has_no_invisible_characters() -> None:
    assert one_line("a\u3164\u2800\u200b\U000e0041b\ufe0f") == "a b"
    assert one_line("x" * 100_000) == "x" * 299 + "…"
    assert one_line("\n" * 100_000 + "x") == ""


def test_long_title_keeps_both_ends() -> None:
    title = relative_title("echo " + "x" * 1_000_000 + " && rm -rf /w/docs", "/w")
    assert title.startswith("echo xxx")
    assert title.endswith("xxx && rm -rf docs")
    assert len(title) <= 300
