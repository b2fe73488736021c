"""A long text of the peer is told again in short."""

from __future__ import annotations

from accord.excerpt import excerpt


def test_a_short_text_stays_as_it_is() -> None:
    assert excerpt("x" * 200) == "x" * 200


def test_a_long_text_is_cut_and_shows_it() -> None:
    assert excerpt("x" * 201) == "x" * 199 + "…"
    assert excerpt("abcdef", 4) == "abc…"
