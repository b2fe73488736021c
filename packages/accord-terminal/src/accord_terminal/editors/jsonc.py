"""Reads JSON with comments and trailing commas, with the place of everything in the text."""

from __future__ import annotations

import json
import re
from typing import Any, TypeAlias

from msgspec import Struct

from accord_terminal.editors.errors import JsoncError

Json: TypeAlias = Any
_MAX_DEPTH = 100  # levels of objects and arrays; settings have a handful
_SPACES = " \t\r\n"
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_LINE_COMMENT = re.compile(r"//[^\r\n]*")
_WORDS: dict[str, Json] = {"true": True, "false": False, "null": None}


class Lead(Struct, frozen=True):
    """The end of the token or comment that precedes something."""

    end: int
    is_line_comment: bool


class Member(Struct, frozen=True):
    """A key with its value. `comma` is the position of the comma after it, if there is one."""

    key: str
    start: int
    value: Node
    comma: int | None
    lead: Lead


class Node(Struct, frozen=True):
    """A value from `start` to `end`; `members` is None if it is not an object."""

    start: int
    end: int
    value: Json
    members: tuple[Member, ...] | None = None
    tail: Lead | None = None  # of an object: before its brace

    def member(self, key: str, text: str) -> Member | None:
        """Return a member of an object; raise `JsoncError` if the key occurs twice."""
        found = [member for member in self.members or () if member.key == key]
        if len(found) > 1:
            raise JsoncError(f"the key {json.dumps(key)} occurs twice", text, found[1].start)
        return found[0] if found else None


def parse(text: str) -> Node | None:
    """Return the value of a text, or None if it has only comments. Raises `JsoncError`."""
    reader = _Reader(text)
    reader.skip()
    if reader.at == len(text):
        return None
    root = reader.value(0)
    reader.skip()
    if reader.at != len(text):
        raise reader.error("the end of the file")
    return root


class _Reader:
    """Moves `at` through the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lead = Lead(0, False)

    def error(self, expected: str) -> JsoncError:
        got = self.text[self.at : self.at + 1]
        shown = json.dumps(got, ensure_ascii=False) if got else "the end of the file"
        return JsoncError(f"expected {expected}, got {shown}", self.text, self.at)

    def skip(self) -> str:
        """Skip spaces and comments; return the next character, or an empty string."""
        text = self.text
        while self.at < len(text):
            if text[self.at] in _SPACES:
                self.at += 1
            elif comment := _LINE_COMMENT.match(text, self.at):
                self._passed(comment.end(), is_line_comment=True)
            elif text.startswith("/*", self.at):
                end = text.find("*/", self.at + 2)
                if end < 0:
                    raise JsoncError("the comment has no end", text, self.at)
                self._passed(end + 2)
            else:
                return text[self.at]
        return ""

    def _passed(self, end: int, *, is_line_comment: bool = False) -> None:
        self.at = end
        self.lead = Lead(end, is_line_comment)

    def value(self, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise JsoncError(f"more than {_MAX_DEPTH} levels", self.text, self.at)
        start = self.at
        match self.skip():
            case "{":
                return self._object(depth)
            case "[":
                return self._array(depth)
            case '"':
                value = self._string()
            case _:
                value = self._scalar()
        return Node(start, self.at, value)

    def _scalar(self) -> Json:
        for word, value in _WORDS.items():
            if self.text.startswith(word, self.at):
                self._passed(self.at + len(word))
                return value
        number = _NUMBER.match(self.text, self.at)
        if number is None:
            raise self.error("a value")
        self._passed(number.end())
        return json.loads(number[0])

    def _string(self) -> str:
        found = _STRING.match(self.text, self.at)
        if found is None:
            raise JsoncError("the string has no end, or an invalid escape", self.text, self.at)
        self._passed(found.end())
        return json.loads(found[0])

    def _array(self, depth: int) -> Node:
        start = self.at
        items: list[Json] = []
        self._passed(self.at + 1)
        while self.skip() != "]":
            items.append(self.value(depth + 1).value)
            if self.skip() == ",":
                self._passed(self.at + 1)
            elif self.skip() != "]":
                raise self.error('"," or "]"')
        self._passed(self.at + 1)
        return Node(start, self.at, items)

    def _object(self, depth: int) -> Node:
        start = self.at
        members: list[Member] = []
        self._passed(self.at + 1)
        while (sign := self.skip()) != "}":
            if sign != '"':
                raise self.error('a key in double quotes or "}"')
            lead, at = self.lead, self.at
            key = self._string()
            if self.skip() != ":":
                raise self.error('":"')
            self._passed(self.at + 1)
            self.skip()
            value = self.value(depth + 1)
            comma = None
            if self.skip() == ",":
                comma = self.at
                self._passed(self.at + 1)
            elif self.skip() != "}":
                raise self.error('"," or "}"')
            members.append(Member(key, at, value, comma, lead))
        tail = self.lead
        self._passed(self.at + 1)
        contents = {member.key: member.value.value for member in members}
        return Node(start, self.at, contents, tuple(members), tail)
