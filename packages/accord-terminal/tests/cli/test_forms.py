"""Forms at the terminal: questions, valid and invalid input."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from accord.client.elicitation import UrlElicitationRequest, form_from_schema
from accord_terminal.toolkit.questions import FormDeclined, fill_in_form, offer_url


class Person:
    """A user who types these lines, followed by the end of the input."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.shown: list[str] = []

    def show(self, text: str, _style: str) -> None:
        self.shown.append(text)

    async def ask(self, prompt: str) -> str | None:
        self.shown.append(prompt)
        return f"{self.lines.pop(0)}\n" if self.lines else None

    async def fills_in(self, **fields: dict[str, Any]) -> Any:
        needed = [name for name, field in fields.items() if field.pop("needed", False)]
        schema = {"type": "object", "properties": fields, "required": needed}
        return await fill_in_form(
            form_from_schema("Why?", schema, "s", None), "Bot", self.show, self.ask
        )


async def test_agent_is_named_and_its_text_is_indented() -> None:
    person = Person("x")
    assert await person.fills_in(a={"type": "string", "title": "Line\none"}) == {"a": "x"}
    assert person.shown == [
        "Bot asks (Ctrl-C declines):",
        "  Why?",
        "Line one (may be empty): ",
    ]


@pytest.mark.parametrize(
    ("field", "line", "value"),
    [
        ({"type": "string"}, " a b ", " a b "),
        ({"type": "integer"}, " 7 ", 7),
        ({"type": "number"}, "7e-1", 0.7),
        ({"type": "boolean"}, "YES", True),
        ({"type": "boolean"}, "n", False),
        ({"type": "string", "enum": ["a", "b"]}, "2", "b"),
        ({"type": "string", "enum": ["a", "b"]}, "a", "a"),
        ({"type": "string", "oneOf": [{"const": "a", "title": "Apple"}]}, "apple", "a"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, "2, a, 2", ["b", "a"]),
    ],
)
async def test_line_is_converted_to_the_type_of_the_field(
    field: dict[str, Any], line: str, value: Any
) -> None:
    assert await Person(line).fills_in(a=field) == {"a": value}


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ({"type": "integer", "maximum": 3}, "4"),
        ({"type": "integer"}, "4.5"),
        ({"type": "number"}, "nan"),
        ({"type": "number"}, "1e999"),
        ({"type": "boolean"}, "perhaps"),
        ({"type": "string", "maxLength": 2}, "abc"),
        ({"type": "string", "enum": ["a"]}, "b"),
        ({"type": "array", "items": {"enum": ["a"]}}, "a, b"),
    ],
)
async def test_invalid_line_is_asked_for_again(field: dict[str, Any], line: str) -> None:
    person = Person(line, "")
    assert await person.fills_in(a=field) == {}
    words = ("Enter a valid value", "Enter a number", "Enter a whole number")
    assert any(one in text for text in person.shown for one in words)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ({"type": "integer", "default": 3}, {"a": 3}),
        ({"type": "boolean", "default": False}, {"a": False}),
        ({"type": "string", "default": ""}, {"a": ""}),
        ({"type": "string"}, {}),
        ({"type": "integer", "default": "three"}, {}),  # an invalid default
        ({"type": "array", "items": {"enum": ["a"]}, "default": [["a"]]}, {}),
    ],
)
async def test_empty_line_selects_the_default_or_no_value(
    field: dict[str, Any], value: Any
) -> None:
    assert await Person("").fills_in(a=field) == value


async def test_form_is_declined_at_the_end_of_the_input() -> None:
    with pytest.raises(FormDeclined):
        await Person().fills_in(a={"type": "string"})


async def test_field_of_unknown_kind_is_skipped_unless_required() -> None:
    own = {"type": "_colour"}
    assert await Person("x").fills_in(a=dict(own), b={"type": "string"}) == {"b": "x"}
    with pytest.raises(FormDeclined, match="cannot be typed"):
        await Person("x").fills_in(a={**own, "needed": True})


async def test_url_is_shown_completely() -> None:
    person = Person("d")
    url = "file:///x\x1b[2J\u202egpj"
    page = UrlElicitationRequest(message="Go", url=url, id="1", done=asyncio.Event())
    assert not await offer_url(page, "Bot", person.show, person.ask)
    assert "  file:///x\\x1b[2J\\u202egpj" in person.shown
