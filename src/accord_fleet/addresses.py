"""Files at addresses of fsspec, such as `s3://bucket/tasks.jsonl`."""

from __future__ import annotations

import importlib
import os
from typing import IO, Any, cast

from accord.errors import AccordError

__all__ = ("exists", "is_address", "open_address")


def is_address(path: str) -> bool:
    """Return whether a text is an address instead of a path of this machine."""
    return "://" in path


def open_address(address: str) -> IO[bytes]:
    """Open a file for reading; raise `OSError`, or `AccordError` for an unknown protocol."""
    return cast("IO[bytes]", _fsspec(address).open(address, "rb").open())


def exists(address: str) -> bool:
    """Return whether a file or an address exists."""
    if not is_address(address):
        return os.path.exists(address)  # noqa: PTH110  # an address, or a path
    try:
        system, path = _fsspec(address).core.url_to_fs(address)
    except (ValueError, ImportError):
        return False
    return bool(system.exists(path))


def _fsspec(address: str) -> Any:
    try:
        return importlib.import_module("fsspec")
    except ImportError:
        raise AccordError(f"{address}: addresses need the extra `fleet` (fsspec)") from None
