"""Runs a program at a pseudo-terminal: reads its screen and types."""

from __future__ import annotations

import os
import select
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cli.emulator import Emulator

__all__ = ("Person", "at_a_terminal")

WAIT_S = 30.0
CTRL_C = b"\x03"

# The program gets the terminal as its own, so that Ctrl-C reaches it and nobody else. It reaches
# it also if the tests run in the background, where shells ignore the signal.
_TAKE_IT = (
    "import fcntl, os, signal, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "signal.signal(signal.SIGINT, signal.SIG_DFL);"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


class Person:
    """A user of a program at a terminal."""

    def __init__(
        self, terminal: int, program: subprocess.Popen[Any], columns: int, lines: int
    ) -> None:
        self.seen = ""
        self.emulator = Emulator(columns, lines)  # the screen and the scrollback
        self._until = 0  # offset of the text that was already waited for
        self.program = program
        self._terminal = terminal

    def sees(self, text: str) -> str:
        """Wait until a text has been shown; return all output."""
        end = time.monotonic() + WAIT_S
        while text not in self.seen:
            assert self._look(end - time.monotonic()), f"no {text!r} in {self.seen!r}"
        return self.seen

    def sees_next(self, text: str) -> None:
        """Wait until a text has been shown after the last text that was waited for."""
        end = time.monotonic() + WAIT_S
        while (at := self.seen.find(text, self._until)) < 0:
            assert self._look(end - time.monotonic()), f"no {text!r} in {self.seen!r}"
        self._until = at + len(text)

    def types(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def leaves(self) -> int:
        """Wait for the end of the program; return its exit status."""
        end = time.monotonic() + WAIT_S
        while self._look(end - time.monotonic()):
            pass
        return self.program.wait(WAIT_S)

    def _look(self, wait_s: float) -> bool:
        ready, _, _ = select.select([self._terminal], [], [], max(wait_s, 0))
        assert ready, f"nothing more was shown after {self.seen!r}"
        try:
            data = os.read(self._terminal, 65536)
        except OSError:  # on Linux, at the end of the program
            return False
        self.seen += data.decode("utf-8", "replace")
        self.emulator.feed(data)
        return bool(data)


@contextmanager
def at_a_terminal(*argv: str, cwd: Path, columns: int = 80, lines: int = 40) -> Iterator[Person]:
    """Start a program at a terminal of this size; kill it at the end of the block."""
    import fcntl
    import pty
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    env = os.environ | {"TERM": "xterm", "LC_ALL": "C.UTF-8"}
    program = subprocess.Popen(
        [sys.executable, "-c", _TAKE_IT, *argv],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
        env=env,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Person(ours, program, columns, lines)
    finally:
        if program.poll() is None:
            program.kill()
        program.wait()
        os.close(ours)
