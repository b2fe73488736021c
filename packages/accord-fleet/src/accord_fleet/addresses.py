"""Files at addresses of fsspec, such as `s3://bucket/tasks.jsonl`."""

from __future__ import annotations

import errno
import importlib
from typing import IO, Any, cast

from accord.text.excerpt import one_line


def is_address(path: str) -> bool:
    """Return whether a text is an address instead of a path of this machine."""
    return "://" in path


def open_address(address: str) -> IO[bytes]:
    """Open a file for reading; raise `OSError` that says why it cannot be opened."""
    try:
        return cast("IO[bytes]", _fsspec().open(address, "rb").open())
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, "it does not exist", address) from error
    except OSError:
        raise
    except Exception as error:  # the library of a store is missing, or raises what it likes
        raise OSError(one_line(str(error), 500)) from error


def _fsspec() -> Any:
    try:
        return importlib.import_module("fsspec")
    except ImportError:
        raise OSError("addresses need the extra `fleet` (fsspec)") from None
