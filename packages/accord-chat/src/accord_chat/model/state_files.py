"""Files of the chat's own state: replaced as a whole, and kept if they cannot be read."""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path

import msgspec


def put_aside(path: Path) -> Path:
    """Give a file another name in its folder; return the new path. Raises `OSError`."""
    for number in itertools.count(1):
        aside = path.with_name(f"{path.name}.unreadable-{number}")
        if not os.path.lexists(aside):
            path.rename(aside)
            return aside
    raise AssertionError


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file that only the user can read. Raises `OSError`; then the old one stays."""
    descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(made).replace(path)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise


def why_unreadable(error: OSError | msgspec.MsgspecError | UnicodeDecodeError) -> str:
    """Return the reason for the user, without the path."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, UnicodeDecodeError):
        return "it is not text"
    return str(error)
