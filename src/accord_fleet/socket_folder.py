"""Folders for Unix sockets, whose paths must be short."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

__all__ = ("socket_folder",)

_LONGEST = 80  # bytes; the path of a socket has at most 103 on some systems


@contextmanager
def socket_folder() -> Generator[Path]:
    """Make a folder that only this user can enter, and remove it after the block.

    It is in the folder for temporary files, or in `/tmp` if that has a long path.
    """
    folder = tempfile.mkdtemp(prefix="accord-")
    if len(os.fsencode(folder)) > _LONGEST and Path("/tmp").is_dir():
        Path(folder).rmdir()
        folder = tempfile.mkdtemp(prefix="accord-", dir="/tmp")
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
