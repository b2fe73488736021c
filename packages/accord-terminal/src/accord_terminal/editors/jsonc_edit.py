"""Sets and removes one member in a text of JSON with comments; the rest stays as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from accord_terminal.editors.errors import JsoncError
from accord_terminal.editors.jsonc import Json, Member, Node, parse

_LINE_START = re.compile(r"[ \t]*")


def formatted(value: Json, unit: str = "  ", base: str = "", newline: str = "\n") -> str:
    """Return a value as text with one member per line; lists without objects are one line."""
    if not _is_mapping(value) or not value:
        return json.dumps(value, ensure_ascii=False)
    inner = base + unit
    members = f",{newline}".join(
        f"{inner}{json.dumps(key, ensure_ascii=False)}: {formatted(item, unit, inner, newline)}"
        for key, item in value.items()
    )
    return f"{{{newline}{members}{newline}{base}}}"


def value_at(text: str, path: Sequence[str]) -> Json:
    """Return the value of the member at a path, or None. Raises `JsoncError`."""
    found = _find(text, path)
    return None if found is None else found[1].value.value


def with_member(text: str, path: Sequence[str], value: Json) -> str:
    """Return the text with a value at a path; missing objects on the way are added.

    An object is merged into an existing one: members that are not in `value` stay.

    Raises `JsoncError` if the text cannot be read, or something else than an object is on the way.
    """
    node = parse(text)
    if node is None:
        newline = _newline(text)
        gap = newline if text and not text.endswith(("\n", "\r")) else ""
        return f"{text}{gap}{formatted(_nested(path, value), newline=newline)}{newline}"
    for depth, key in enumerate(path):
        if node.members is None:
            place = f" for {json.dumps(path[depth - 1])}" if depth else ""
            raise JsoncError(f"expected an object{place}", text, node.start)
        member = node.member(key, text)
        if member is None:
            return _inserted(text, node, key, _nested(path[depth + 1 :], value))
        node = member.value
    if _is_mapping(value) and node.members is not None:
        for key, item in value.items():
            text = with_member(text, (*path, key), item)
        return text
    if json.dumps(node.value, sort_keys=True) == json.dumps(value, sort_keys=True):
        return text
    base = _line_indent(text, node.start)
    new = formatted(value, _unit(text), base, _newline(text))
    return text[: node.start] + new + text[node.end :]


def without_member(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at a path; the same text if there is none.

    Raises `JsoncError` if the text cannot be read.
    """
    found = _find(text, path)
    if found is None:
        return text
    parent, member = found
    assert parent.members is not None
    start, lead = member.lead.end, member.lead
    end = member.value.end if member.comma is None else member.comma + 1
    if lead.is_line_comment and not text[end:].startswith(("\n", "\r")):
        start = member.start  # what follows must not become a part of the comment
    before = text[:start]
    at = parent.members.index(member)
    if member.comma is None and at > 0:
        comma = parent.members[at - 1].comma
        assert comma is not None
        before = before[:comma] + before[comma + 1 :]
    if len(parent.members) == 1 and not text[parent.start + 1 : start].strip():
        rest = text[end : parent.end - 1]
        if not rest.strip():
            return text[: parent.start] + "{}" + text[parent.end :]
    return before + text[end:]


def _find(text: str, path: Sequence[str]) -> tuple[Node, Member] | None:
    node = parse(text)
    found: tuple[Node, Member] | None = None
    for key in path:
        member = None if node is None else node.member(key, text)
        if node is None or member is None:
            return None
        found, node = (node, member), member.value
    return found


def _inserted(text: str, parent: Node, key: str, value: Json) -> str:
    """Return the text with a new last member."""
    assert parent.members is not None
    assert parent.tail is not None
    newline, unit = _newline(text), _unit(text)
    outer = _line_indent(text, parent.start)
    last = parent.members[-1] if parent.members else None
    is_one_line = not re.search(r"[\r\n]", text[parent.start : parent.end])
    name = json.dumps(key, ensure_ascii=False)
    if last is not None and is_one_line:
        new = f" {name}: {json.dumps(value, ensure_ascii=False)}"
    else:
        indent = _member_indent(text, parent) or outer + unit
        new = f"{newline}{indent}{name}: {formatted(value, unit, indent, newline)}"
    tail = parent.tail.end
    rest = text[tail:]
    if last is None:
        between = text[tail : parent.end - 1]
        if not re.search(r"[\r\n]", between):
            rest = f"{newline}{outer}{text[parent.end - 1 :]}"
        return text[:tail] + new + rest
    if last.comma is not None:
        return f"{text[:tail]}{new},{rest}"
    end = last.value.end
    return f"{text[:end]},{text[end:tail]}{new}{rest}"


def _member_indent(text: str, parent: Node) -> str | None:
    """Return the indentation of the first member that begins a line."""
    for member in parent.members or ():
        start = _line_start(text, member.start)
        if not text[start : member.start].strip():
            return text[start : member.start]
    return None


def _line_start(text: str, at: int) -> int:
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


def _line_indent(text: str, at: int) -> str:
    found = _LINE_START.match(text, _line_start(text, at))
    return found[0][: at - _line_start(text, at)] if found else ""


def _unit(text: str) -> str:
    root = parse(text)
    return (None if root is None else _member_indent(text, root)) or "  "


def _newline(text: str) -> str:
    end = text.find("\n")
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


def _nested(path: Sequence[str], value: Json) -> Json:
    for key in reversed(path):
        value = {key: value}
    return value


def _is_mapping(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)
