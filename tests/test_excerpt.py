"""A long text of the peer is told again in short."""

from __future__ import annotations

from accord.excerpt import excerpt, one_line, visible


def test_a_short_text_stays_as_it_is() -> None:
    assert excerpt("x" * 200) == "x" * 200


def test_a_long_text_is_cut_and_shows_it() -> None:
    assert excerpt("x" * 201) == "x" * 199 + "…"
    assert excerpt("abcdef", 4) == "abc…"


def test_what_a_terminal_would_obey_is_spelt_out() -> None:
    nasty = "\x1b]0;title\x07 \x9b31m \u202eabc\r"
    assert visible(nasty) == r"\x1b]0;title\x07 \x9b31m \u202eabc\x0d"


def test_letters_tabs_and_line_ends_stay_as_they_are() -> None:
    assert visible("a\tb\nñ 語 😀") == "a\tb\nñ 語 😀"


def test_half_surrogates_are_spelt_out() -> None:
    assert visible("\ud800é") == "\\ud800é"


def test_line_stays_one() -> None:
    assert one_line("a\nb\u2028c\x1b\td") == "a\\nb\\u2028c\\x1b\td"
    assert one_line("x" * 2000) == "x" * 999 + "…"
