"""The name that a misspelled one was probably meant to be."""

from __future__ import annotations

import pytest

from accord.text.excerpt import nearest, nearest_keyword

KINDS = ("read", "edit", "delete", "move", "search", "execute")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("edti", "edit"),
        ("EDIT", "edit"),
        ("edits", "edit"),
        ("execvte", "execute"),
        ("seazch", "search"),
        ("mve", "move"),
        ("edit", "edit"),
        ("paint", None),
        ("x", None),
        ("", None),
        ("e" * 10_000, None),
    ],
)
def test_name_with_few_typing_errors_is_found(name: str, meant: str | None) -> None:
    assert nearest(name, KINDS) == meant


def test_nothing_is_near_if_nothing_is_known() -> None:
    assert nearest("edit", ()) is None


@pytest.mark.parametrize(
    ("name", "meant"),
    [("permission", "permissions"), ("p", "permissions"), ("evn", "env"), ("other", None)],
)
def test_keyword_can_be_named_by_its_beginning(name: str, meant: str | None) -> None:
    assert nearest_keyword(name, ("permissions", "env")) == meant
