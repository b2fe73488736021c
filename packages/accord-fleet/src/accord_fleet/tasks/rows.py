"""Rows of files of tasks, one at a time."""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from accord.text.lenient_json import is_object
from accord_fleet.addresses import is_address, open_address
from accord_fleet.errors import FleetError
from accord_fleet.graders.references import load_object
from accord_fleet.types.task import Task

_KINDS = "a file .jsonl, .csv, .tsv or .parquet, or file.py:name"
_CELL_CHARACTERS = 2**27


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
        module = importlib.import_module("accord_fleet.tasks.parquet_rows")
    except ImportError as error:
        raise FleetError(f"{name}: Parquet needs the extra `fleet` ({error.name})") from None
    with closing(_opened(name)) as file:
        number = 0
        try:
            for number, data in enumerate(module.parquet_rows(file), 1):
                yield Row(f"{name}, row {number}", data)
        except module.ParquetError as error:
            yield Row(f"{name}, row {number + 1}", None, f"expected a Parquet file: {error}")


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
