from __future__ import annotations

import pytest

from accord_inspector.forms import bytes_of_text


def test_escapes_are_bytes_and_code_points() -> None:
    assert bytes_of_text(r"{a\n\xff\u00e9\ud800\\\0é", escapes=True) == (
        b"{a\n\xff\xc3\xa9\xed\xa0\x80\\\0\xc3\xa9"
    )


def test_without_escapes_a_backslash_is_one() -> None:
    assert bytes_of_text(r'{"text":"a\n"}', escapes=False) == rb'{"text":"a\n"}'


@pytest.mark.parametrize("text", ["ab\\q", "ab\\x1", "ab\\u12", "ab\\"])
def test_an_unknown_escape_is_named_with_its_place(text: str) -> None:
    with pytest.raises(ValueError, match=r"Unknown escape '\\.?' at character 3"):
        bytes_of_text(text, escapes=True)
