"""Rows of Parquet files, read in batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any, cast

import msgspec
import pyarrow  # pyright: ignore[reportMissingTypeStubs]
from pyarrow import parquet  # pyright: ignore[reportMissingTypeStubs]

_pyarrow: Any = pyarrow
_parquet: Any = parquet
ParquetError: type[Exception] = _pyarrow.ArrowException
_ROWS_AT_ONCE = 256


def parquet_rows(file: IO[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the rows; nulls are left out, and times and decimals are strings."""
    for batch in _parquet.ParquetFile(file).iter_batches(batch_size=_ROWS_AT_ONCE):
        for row in batch.to_pylist(maps_as_pydicts="lossy"):
            yield _without_nulls(msgspec.to_builtins(row))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {name: _without_nulls(item) for name, item in items if item is not None}
    return value
