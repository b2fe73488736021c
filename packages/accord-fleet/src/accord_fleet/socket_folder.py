"""Folders for Unix sockets, whose paths must be short."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from accord_fleet.scratch import scratch_folder

_LONGEST = 60  # bytes, with what the folder is called; a socket's path has at most 103


@contextmanager
def socket_folder() -> Generator[Path]:
    """Make a folder that only this user can enter, and remove it after the block.

    It is in the folder for temporary files, or in `/tmp` if that has a long path. A later run
    removes it if this process is killed.
    """
    is_long = len(os.fsencode(tempfile.gettempdir())) > _LONGEST
    with scratch_folder("/tmp" if is_long and Path("/tmp").is_dir() else None) as folder:
        yield folder
