"""Recordings that come through a pipe: they are copied, because they are read more than once."""

from __future__ import annotations

import shutil
import stat
import tempfile
import weakref
from pathlib import Path

from accord_trace.packing import TraceError


def is_pipe(path: Path) -> bool:
    """Return whether what is at a path can be read only once."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


class PipedFile:
    """A private copy of all that comes through a pipe; it is removed with this object.

    Raise `TraceError` if the pipe cannot be read, or the copy cannot be written.
    """

    def __init__(self, pipe: Path) -> None:
        folder = tempfile.TemporaryDirectory(prefix="accord-")
        weakref.finalize(self, folder.cleanup)
        self.pipe: Path = pipe
        self.path: Path = Path(folder.name, pipe.name)
        try:
            with pipe.open("rb") as source, self.path.open("wb") as copy:
                shutil.copyfileobj(source, copy)
        except OSError as error:
            raise TraceError(f"Cannot copy {pipe} to {self.path}: {error.strerror}") from None
