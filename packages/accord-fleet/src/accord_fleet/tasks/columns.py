"""Columns of tables become fields of tasks."""

from __future__ import annotations

import json
import shlex
import string
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from accord.text.lenient_json import is_object
from accord_fleet.errors import FleetError
from accord_fleet.tasks.problems import closest
from accord_fleet.types.task import Task

FIELDS: frozenset[str] = frozenset(
    {"prompt", *(field.name for field in msgspec.structs.fields(Task))}
)
# Their keys may contain dots.
_MAPS = {"env", "files", "metadata", "options"}


def _commas(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


_LISTS: dict[str, Callable[[str], list[str]]] = {
    "grader.command": shlex.split,
    "mcp_servers": lambda text: [text],
    "permissions.allow": _commas,
    "permissions.deny": _commas,
    "prompts": lambda text: [text],
    "tags": _commas,
}


def misspelt_column(name: str) -> str | None:
    """Return the field that a column probably means, if its name is only similar to one."""
    first = name.partition(".")[0]
    return None if first in FIELDS else closest(first, FIELDS, cutoff=0.8)


def fields_of(row: Mapping[str, Any], *, is_text: bool) -> dict[str, Any]:
    """Return the fields of a task from the columns of a table.

    A column with the name of a field is that field, `limits.turn_s` is one inside of it, and every
    other column is in `metadata`. Empty cells are left out. In text, a cell that begins with `[`
    or `{` is JSON where a list or an object is expected; other lists are separated by commas, and
    commands are split as a shell does. Raises `FleetError` for a cell that cannot be read so.
    """
    task: dict[str, Any] = {}
    for column, cell in row.items():
        if cell is None or cell == "":
            continue
        path = _path(column)
        value = _value(column, cell) if is_text and path[0] != "metadata" else cell
        inside = task
        for name in path[:-1]:
            inside = inside.setdefault(name, {})
            if not is_object(inside):
                raise FleetError(f"{column}: expected either {name!r} or columns inside of it")
        if path[-1] in inside:
            raise FleetError(f"{column}: expected either {path[0]!r} or columns inside of it")
        inside[path[-1]] = value
    return task


def _path(column: str) -> list[str]:
    first, dot, rest = column.partition(".")
    if first not in FIELDS:
        return ["metadata", column]
    if not dot:
        return [first]
    return [first, rest] if first in _MAPS else [first, *rest.split(".")]


def _value(column: str, cell: str) -> Any:
    text = cell.strip()
    is_object_field = column in _MAPS or column in ("grader", "limits", "permissions", "workspace")
    if (column in _LISTS and text.startswith("[")) or (is_object_field and text.startswith("{")):
        try:
            return json.loads(text)
        except ValueError as error:
            raise FleetError(f"{column}: expected JSON: {error}") from None
    if column not in _LISTS:
        return cell
    try:
        return _LISTS[column](cell)
    except ValueError as error:
        raise FleetError(f"{column}: expected a command: {error}") from None


class Template:
    """A prompt with columns in braces, such as `Fix {title}`; `{{` is a brace."""

    def __init__(self, text: str) -> None:
        """Raise `FleetError` for text that cannot be filled in."""
        self._parts: list[tuple[str, str | None]] = []
        try:
            for before, name, spec, conversion in string.Formatter().parse(text):
                if name == "" or spec or conversion:
                    raise ValueError("each brace needs the name of a column, and nothing else")
                self._parts.append((before, name))
        except ValueError as error:
            raise FleetError(f"prompt_template: {error}; write {{{{ for a brace") from None

    def fill(self, values: Mapping[str, Any]) -> str:
        """Return the prompt; raise `FleetError` for a missing value."""
        words: list[str] = []
        for before, name in self._parts:
            words.append(before)
            if name is not None:
                words.append(self._word(name, values))
        return "".join(words)

    def _word(self, name: str, values: Mapping[str, Any]) -> str:
        value = values.get(name)
        if value is None or value == "":
            raise FleetError(f"the template needs {name!r}, {_missing(name, values)}")
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _missing(name: str, values: Iterable[str]) -> str:
    known = list(values)
    if name in known:
        return "which is empty"
    found = closest(name, known)
    return "which does not exist" if found is None else f"which does not exist; {found!r} does"
