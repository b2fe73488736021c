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
    numbers: dict[int, int] = {}
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = numbers[number] = os.open(os.devnull, os.O_RDWR)  # the lowest that is free
            os.set_inheritable(opened, True)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            # A file that was opened before, as by a hook of `site`, may have the number already.
            opened = numbers.get(number, os.devnull)
            setattr(sys, name, open(opened, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
