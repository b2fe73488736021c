"""Reading JSON with comments: values, places, and errors with line and column."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord_terminal.editor_settings import JsoncError, parse


def value(text: str) -> Any:
    node = parse(text)
    return None if node is None else node.value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda items: st.lists(items) | st.dictionaries(st.text(), items),
    max_leaves=12,
)


@settings(max_examples=40)
@given(JSON)
def test_reads_what_json_reads(given_value: Any) -> None:
    try:
        text = json.dumps(given_value, allow_nan=False)
    except ValueError:
        return  # infinity
    assert value(text) == given_value


def test_comments_and_trailing_commas_are_read() -> None:
    text = """// top
    {
      /* a // b */ "a": [1, 2, /* three */ 3,], // end
      "b": {"url": "https://x//y"},
    } // bottom"""
    assert value(text) == {"a": [1, 2, 3], "b": {"url": "https://x//y"}}


def test_text_without_a_value_is_none() -> None:
    assert parse("  // nothing\n/* here */") is None


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ('{"a": 1\n  "b": 2}', (2, 3), '"," or "}"'),
        ('{\r\n\r\n  "a" 1}', (3, 7), '":"'),
        ("{'a': 1}", (1, 2), "a key in double quotes"),
        ('{"a": tr}', (1, 7), "a value"),
        ('{"a": 01}', (1, 8), '"," or "}"'),
        ('{"a": "x\ny"}', (1, 7), "the string has no end"),
        ('{"a": "\\q"}', (1, 7), "invalid escape"),
        ('{"a": 1', (1, 8), "got the end of the file"),
        ("{} {}", (1, 4), "the end of the file"),
        ("{ /* x", (1, 3), "the comment has no end"),
        ("[1 2]", (1, 4), '"," or "]"'),
        ("[,]", (1, 2), "a value"),
        ("[" * 200, (1, 102), "levels"),
    ],
)
def test_errors_name_line_and_column(text: str, place: tuple[int, int], expected: str) -> None:
    with pytest.raises(JsoncError) as error:
        parse(text)
    assert (error.value.line, error.value.column) == place
    assert expected in str(error.value)
