"""Runs `accord chat --lines`."""

from __future__ import annotations

import os
import sys

from accord.local.run import run_program
from accord_chat.lines.printer import Printer
from accord_chat.lines.program import LinesProgram
from accord_chat.start import ChatOptions, prepare


def run_lines(options: ChatOptions) -> int:
    """Run the program; return its exit status."""
    start = prepare(options)
    encoding = sys.stdout.encoding or "utf-8"

    def write(text: str) -> None:
        try:
            sys.stdout.buffer.write(text.encode(encoding, "backslashreplace"))
            sys.stdout.buffer.flush()
        except (OSError, ValueError):  # the reader has gone
            program.quit()

    program = LinesProgram(start.make_chat, Printer(write, _width), lists_sessions=options.resume)
    try:
        return run_program(program.run())
    finally:
        start.saved.release()


def _width() -> int | None:
    """Return the columns of the terminal; None if the output goes elsewhere."""
    try:
        return os.get_terminal_size(1).columns or None
    except (OSError, ValueError):
        return None
