"""Rows of files of tasks, one at a time, and how a row becomes the fields of a task.

Columns of tables become fields, and defaults are what all tasks have in common.
"""

from __future__ import annotations

import csv
import importlib
import io
import json
import os
import re
import shlex
import string
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import msgspec

from accord.text.lenient_json import is_object
from accord_fleet.grader_functions import load_object
from accord_fleet.storage import is_address, open_address
from accord_fleet.tasks.problems import closest
from accord_fleet.types import FleetError, Task

_KINDS = "a file .jsonl, .csv, .tsv or .parquet, or file.py:name"
_CELL_CHARACTERS = 2**27
_ROWS_AT_ONCE = 256  # of a Parquet file


class Row(NamedTuple):
    """What a source has for one task, or why it cannot be read."""

    where: str
    data: Any
    error: str | None = None


class Source(NamedTuple):
    """Where tasks come from."""

    name: str
    folder: Path
    """Relative paths of the tasks start here."""
    has_columns: bool
    """Whether the rows are those of a table: its columns become fields."""
    rows: Callable[[], Iterator[Row]]
    is_text: bool = False
    """Whether all values are strings."""


def open_source(given: str | Path | Iterable[Any]) -> Source:
    """Return the source for a file, `file.py:name`, or an iterable of tasks or mappings.

    Raises `FleetError` for a file that does not exist or has another kind.
    """
    if not isinstance(given, (str, Path)):
        return Source("tasks", Path.cwd(), False, lambda: _items(given, "item"))
    text = str(given)
    if not is_address(text) and ".py:" in text:
        file = Path(text.rpartition(":")[0])
        return Source(text, file.parent.resolve(), False, lambda: _python_rows(text))
    folder = Path.cwd() if is_address(text) else Path(text).parent.resolve()
    if not is_address(text) and not Path(text).is_file():
        why = "is not a file" if Path(text).exists() else "does not exist"
        raise FleetError(f"Expected {_KINDS}; {text} {why}")
    match Path(text).suffix.lower():
        case ".jsonl" | ".ndjson":
            return Source(text, folder, False, lambda: _json_rows(text))
        case ".csv" | ".tsv" as suffix:
            separator = "\t" if suffix == ".tsv" else ","
            return Source(text, folder, True, lambda: _csv_rows(text, separator), is_text=True)
        case ".parquet":
            return Source(text, folder, True, lambda: _parquet_rows(text))
        case _:
            raise FleetError(f"Expected {_KINDS}, got {text}")


def _opened(name: str) -> IO[bytes]:
    try:
        return open_address(name) if is_address(name) else Path(name).open("rb")
    except OSError as error:
        raise FleetError(f"{name}: {error.strerror or error}") from error


def _json_rows(name: str) -> Iterator[Row]:
    decode = msgspec.json.Decoder().decode
    with closing(_opened(name)) as lines:
        for number, line in enumerate(lines, 1):
            where = f"{name}:{number}"
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            if not line.strip():
                continue
            try:
                yield Row(where, decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                yield Row(where, None, f"expected a JSON object: {error}")


def _csv_rows(name: str, separator: str) -> Iterator[Row]:
    csv.field_size_limit(_CELL_CHARACTERS)
    with (
        closing(_opened(name)) as data,
        io.TextIOWrapper(data, "utf-8-sig", newline="") as text,
    ):
        reader = csv.reader(text, delimiter=separator, strict=True)
        header: list[str] | None = None
        while True:
            before = reader.line_num + 1
            where = f"{name}:{before}"
            try:
                cells = next(reader)
            except StopIteration:
                return
            except (csv.Error, UnicodeDecodeError) as error:
                yield Row(where, None, f"expected a row of CSV in UTF-8: {error}")
                return
            if not any(cells):
                continue
            if header is None:
                header = [cell.strip() for cell in cells]
                twice = {cell for cell in header if header.count(cell) > 1}
                if twice or not all(header):
                    what = f"{min(twice)!r} occurs twice" if twice else "one is empty"
                    yield Row(where, None, f"expected a different name for each column; {what}")
                    return
            elif len(cells) != len(header):
                yield Row(where, None, f"expected {len(header)} cells, got {len(cells)}")
            else:
                yield Row(where, dict(zip(header, cells, strict=True)))


def _parquet_rows(name: str) -> Iterator[Row]:
    try:
        pyarrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise FleetError(f"{name}: Parquet needs the extra `fleet` ({error.name})") from None
    with closing(_opened(name)) as file:
        number = 0
        try:
            for batch in parquet.ParquetFile(file).iter_batches(batch_size=_ROWS_AT_ONCE):
                for data in batch.to_pylist(maps_as_pydicts="lossy"):
                    number += 1
                    # Nulls are left out, and times and decimals are strings.
                    yield Row(f"{name}, row {number}", _without_nulls(msgspec.to_builtins(data)))
        except pyarrow.ArrowException as error:
            yield Row(f"{name}, row {number + 1}", None, f"expected a Parquet file: {error}")


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {name: _without_nulls(item) for name, item in items if item is not None}
    return value


def _python_rows(name: str) -> Iterator[Row]:
    place = str(Path(name.rpartition(":")[0]).resolve())
    try:
        found = load_object(f"{place}:{name.rpartition(':')[2]}")
        items = found() if callable(found) else found
        yield from _items(items, f"{name}, item")
    except FleetError:
        raise
    except Exception as error:  # noqa: BLE001  # the user's code
        kind = type(error).__name__
        yield Row(name, None, f"expected tasks, got {kind}: {error}")


def _items(items: Any, where: str) -> Iterator[Row]:
    if is_object(items) or isinstance(items, (str, bytes, Task)):
        items = (items,)
    for number, item in enumerate(items, 1):
        if is_object(item) or isinstance(item, Task):
            yield Row(f"{where} {number}", item)
        else:
            kind = type(item).__name__
            yield Row(f"{where} {number}", None, f"expected a Task or a mapping, got {kind}")


# Columns.

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


# Defaults.

_REMOTE = re.compile(r"[^/\\]{2,}:")  # host:path of ssh; C: is a drive


def read_defaults(path: str | Path) -> dict[str, Any]:
    """Return the fields of a TOML file, with absolute paths; raise `FleetError`."""
    file = Path(path)
    try:
        with file.open("rb") as data:
            found = tomllib.load(data)
    except OSError as error:
        raise FleetError(f"The defaults {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FleetError(f"The defaults {file}: expected TOML: {error}") from None
    return absolute_paths(found, file.parent.resolve())


def merged(defaults: Mapping[str, Any], task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a task above the defaults.

    Objects are merged key by key, unless their `type` differs; everything else is replaced.
    """
    found = dict(defaults)
    for name, value in task.items():
        before = found.get(name)
        if is_object(before) and is_object(value) and _fits(before, value):
            found[name] = merged(before, value)
        else:
            found[name] = value
    return found


def _fits(before: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    return "type" not in value or value["type"] == before.get("type")


def absolute_paths(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the fields of a task with the paths of its workspace and grader made absolute."""
    workspace, grader = task.get("workspace"), task.get("grader")
    changed = dict(task)
    if is_object(workspace):
        changed["workspace"] = {
            name: _absolute(value, folder) if name in ("path", "url") else value
            for name, value in workspace.items()
        }
    if is_object(grader) and isinstance(function := grader.get("function"), str):
        place, colon, name = function.rpartition(":")
        if colon and place.endswith(".py"):
            changed["grader"] = {**grader, "function": f"{_absolute(place, folder)}:{name}"}
    return changed


def _absolute(value: Any, folder: Path) -> Any:
    if not isinstance(value, str) or not value or "\0" in value or value.startswith("-"):
        return value
    if is_address(value) or _REMOTE.match(value):
        return value
    return os.path.normpath(folder / Path(value).expanduser())
