"""Opens the standard streams that were closed before the program started."""

from __future__ import annotations

import os
import sys

__all__ = ("open_standard_streams",)


def open_standard_streams() -> None:
    """Open closed ones of stdin, stdout and stderr on the null device, for children too.

    Otherwise the next file or socket that is opened gets the number 0, 1 or 2, and what is meant
    for the stream is read from it or written to it.
    """
    for fd, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(opened, True)
            if getattr(sys, name) is None:
                setattr(sys, name, open(opened, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
