"""Writes to stdout without a traceback if its disk is full or its reader has left."""

from __future__ import annotations

import errno
import os
import sys

__all__ = ("drop_output", "is_full", "write_output")

# What a write to the output raises if its disk is full or fails.
_FULL = (errno.ENOSPC, errno.EFBIG, errno.EIO, getattr(errno, "EDQUOT", errno.ENOSPC))


def write_output(text: str) -> int:
    """Write a text to stdout; return the exit status, which is 1 if that fails."""
    if sys.stdout is None:  # closed before the program started
        return 0
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"accord: cannot write the output: {error.strerror}\n")
        drop_output()
        return 1
    return 0


def is_full(error: OSError) -> bool:
    """Return whether stdout could not be written: its disk is full, or fails."""
    return error.errno in _FULL and error.filename is None


def drop_output() -> None:
    """Let Python write the rest of a buffer to nowhere when it exits."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123  # a device
        os.dup2(nowhere.fileno(), 1)
