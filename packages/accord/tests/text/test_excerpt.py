"""Excerpts of a peer's text for messages and logs."""

from __future__ import annotations

import pytest

from accord.text.excerpt import excerpt, hidden_removed, one_line, visible


def test_short_text_is_unchanged() -> None:
    assert excerpt("x" * 200) == "x" * 200


def test_long_text_is_truncated_visibly() -> None:
    assert excerpt("x" * 201) == "x" * 199 + "…"
    assert excerpt("abcdef", 4) == "abc…"


def test_terminal_control_characters_are_escaped() -> None:
    nasty = "\x1b]0;title\x07 \x9b31m \u202eabc\r"
    assert visible(nasty) == r"\x1b]0;title\x07 \x9b31m \u202eabc\x0d"


def test_letters_tabs_and_newlines_are_unchanged() -> None:
    assert visible("a\tb\nñ 語 😀") == "a\tb\nñ 語 😀"


def test_lone_surrogates_are_escaped() -> None:
    assert visible("\ud800é") == "\\ud800é"


def test_line_stays_one_line() -> None:
    assert one_line("a\nb\u2028c\x1b\td") == "a\\nb\\u2028c\\x1b\td"
    assert one_line("x" * 2000) == "x" * 999 + "…"


@pytest.mark.parametrize(
    "character",
    "\x00\x1b\x7f\x85\x9f\xad\u061c\u115f\u1160\u17b4\u180e\u200b\u200c\u200d\u200e\u200f\u2028\u202e"
    "\u2060\u2069\u3164\ufe00\ufe0f\ufeff\uffa0\ufffa\U000e0001\U000e0041\U000e0100",
    ids=lambda character: f"{ord(character):x}",
)
def test_invisible_characters_are_escaped_or_removed(character: str) -> None:
    assert character not in visible(f"a{character}b")
    assert f"{ord(character):x}" in visible(f"a{character}b")
    assert hidden_removed(f"a{character}b") == "ab"


def test_joiners_in_letters_and_emoji_are_kept() -> None:
    for text in ("👩\u200d👩\u200d👧", "❤\ufe0f", "1\ufe0f\u20e3", "می\u200cخواهم"):
        assert visible(text) == hidden_removed(text) == text
    assert hidden_removed("❤\ufe0f\ufe0f\ufe0f") == "❤\ufe0f"
