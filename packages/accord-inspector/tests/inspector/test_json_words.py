"""The page names types as JSON does."""

from __future__ import annotations

import pytest

from accord_inspector.json_http import json_words


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Expected `str`, got `int` at $.title", "Expected string, got integer at $.title"),
        (
            "Expected `int | str | null`, got `bool`",
            "Expected integer or string or null, got boolean",
        ),
        ("Expected `object`, got `array`", "Expected object, got array"),
        ("needs `fs.readTextFile` of `session/new`", "needs `fs.readTextFile` of `session/new`"),
        ("`Cost | None` is a type", "`Cost | None` is a type"),
    ],
)
def test_python_names_of_types_are_replaced(text: str, shown: str) -> None:
    assert json_words(text) == shown
