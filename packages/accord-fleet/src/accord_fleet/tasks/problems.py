"""What is wrong with tasks: all of it, at most fifty problems in full."""

from __future__ import annotations

import difflib
import json
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Union, get_args, get_origin

import msgspec

from accord.text.excerpt import one_line
from accord.text.lenient_json import is_array, is_object
from accord_fleet.types import FleetError

MOST_SHOWN = 50
_EXPECTED = re.compile(r"Expected `(?P<expected>[^`]*)`, got `[^`]*`")


class Problem(NamedTuple):
    """One problem of a task."""

    where: str
    """File and line, or item."""
    path: str
    """The field, such as `limits.turn_s`; empty for the whole task."""
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in self if part)


class TaskErrors(FleetError):
    """Tasks are wrong; nothing has been run. The message has one line for each problem."""

    def __init__(self, problems: tuple[Problem, ...], count: int) -> None:
        lines = [f"{count} problem{'s' * (count != 1)} in the tasks; nothing was run:"]
        lines += [one_line(str(problem), 1000) for problem in problems]
        if count > len(problems):
            lines.append(f"and {count - len(problems)} more")
        super().__init__("\n".join(lines))
        self.problems: tuple[Problem, ...] = problems
        self.count: int = count


class Problems:
    """Collects problems: the first fifty, and the number of all."""

    def __init__(self) -> None:
        self._first: list[Problem] = []
        self.count: int = 0

    def add(self, where: str, path: str, message: str) -> None:
        """Add a problem."""
        self.count += 1
        if len(self._first) < MOST_SHOWN:
            self._first.append(Problem(where, path, message))

    def raise_if_any(self) -> None:
        """Raise `TaskErrors` for the collected problems."""
        if self.count:
            raise TaskErrors(tuple(self._first), self.count)


def closest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name that is most like a name, if one is."""
    return next(iter(difflib.get_close_matches(name, list(known), 1, cutoff)), None)


def shown(value: Any) -> str:
    """Return a short form of a value for a message."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return one_line(text, 80)


def unknown_name(name: str, known: Iterable[str]) -> str:
    """Return the message for an unknown field."""
    found = closest(name, known)
    return "unknown field" if found is None else f"unknown field; the closest is {found!r}"


def explain(value: Any, expected: Any, path: str, *, strict: bool) -> Iterator[tuple[str, str]]:
    """Yield the path and the message of everything in a value that has another type."""
    structs = _structs(expected)
    if structs and (value is not None or type(None) not in get_args(expected)):
        yield from _explain_object(value, structs, path, strict)
    elif get_origin(expected) is dict and is_object(value):
        for key, item in value.items():
            yield from explain(item, get_args(expected)[1], _join(path, str(key)), strict=strict)
    elif get_origin(expected) is tuple and is_array(value):
        for number, item in enumerate(value):
            yield from explain(item, get_args(expected)[0], f"{path}[{number}]", strict=strict)
    else:
        try:
            msgspec.convert(value, expected, strict=strict)
        except msgspec.ValidationError as error:
            yield path, _message(str(error), value)


def _explain_object(
    value: Any, structs: Mapping[str, type[msgspec.Struct]], path: str, strict: bool
) -> Iterator[tuple[str, str]]:
    if not is_object(value):
        yield path, f"expected an object, got {shown(value)}"
        return
    if "" in structs:
        struct = structs[""]
        names = {field.encode_name: field for field in msgspec.structs.fields(struct)}
        known = set(names)
    else:
        tag = value.get("type")
        if not isinstance(tag, str) or tag not in structs:
            kinds = ", ".join(map(repr, structs))
            got = "it is missing" if tag is None else f"got {shown(tag)}"
            yield _join(path, "type"), f"expected one of {kinds}, {got}"
            return
        names = {field.encode_name: field for field in msgspec.structs.fields(structs[tag])}
        known = {*names, "type"}
    for key, item in value.items():
        if key not in known:
            yield _join(path, key), unknown_name(key, known)
        elif key in names:
            yield from explain(item, names[key].type, _join(path, key), strict=strict)
    for name, field in names.items():
        if field.required and name not in value:
            yield _join(path, name), "expected a value, it is missing"


def _structs(expected: Any) -> dict[str, type[msgspec.Struct]]:
    """Return the structs of a type by their tags; the one without a tag is under an empty one."""
    union = get_origin(expected) in (Union, types.UnionType)
    members = get_args(expected) if union else (expected,)
    return {
        str(getattr(member.__struct_config__, "tag", None) or ""): member
        for member in members
        if isinstance(member, type) and issubclass(member, msgspec.Struct)
    }


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _message(text: str, value: Any) -> str:
    if found := _EXPECTED.match(text):
        return f"expected {found['expected'].replace('null', 'nothing')}, got {shown(value)}"
    return f"{text[:1].lower()}{text[1:]}; got {shown(value)}"
