"""Edits the line that is typed, as the terminal itself does, and recalls earlier ones.

The cursor stays at the end of the line, and nothing else of the screen is drawn again.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from rich.cells import cell_len

from accord.text.excerpt import visible

if sys.platform != "win32":
    import termios


DUMB = ("", "dumb", "unknown")
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[A-Z]|[^\[O])")
_STEPS = {"\x1b[A": -1, "\x1bOA": -1, "\x10": -1, "\x1b[B": 1, "\x1bOB": 1, "\x0e": 1}
_END, _WORD, _LINE = "\x04", "\x17", "\x15"  # Ctrl-D, Ctrl-W, Ctrl-U
_ERASE = ("\x7f", "\x08")


def can_edit(descriptor: int) -> bool:
    """Return whether this is a terminal that can erase what it shows."""
    return (
        sys.platform != "win32"
        and os.isatty(descriptor)
        and os.isatty(1)
        and os.environ.get("TERM", "") not in DUMB
    )


class LineEditor:
    """Makes lines of keys, and recalls them; before them come those that `prompts` returns."""

    def __init__(
        self,
        prompts: Callable[[], Sequence[str]],
        write: Callable[[str], None],
        width: Callable[[], int | None],
    ) -> None:
        self.line = ""  # what is typed so far
        self.dropped = ""  # by Ctrl-C, until the next key
        self.has_ended = False
        self._prompts = prompts
        self._typed: dict[str, None] = {}  # the latest at the end
        self._write = write
        self._width = width
        self._recalled: list[str] = []  # while the user goes through them; what was typed is last
        self._at = 0
        self._keys = ""  # that are incomplete
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> str:
        """Take keys; return the finished lines, each with its end."""
        finished: list[str] = []
        self.dropped = ""
        keys, self._keys = self._keys + self._decoder.decode(data), ""
        at = 0
        while at < len(keys):
            key = keys[at]
            if key == "\x1b":
                found = _SEQUENCE.match(keys, at)
                if found is None:
                    self._keys = keys[at:] if len(keys) - at < 32 else ""
                    break
                key = found[0]
            at += len(key)
            if key in ("\r", "\n"):
                self._write("\n")
                finished.append(f"{self.line}\n")
                self._remember(self.line)
                self.line, self._recalled = "", []
            elif key == _END and not self.line:
                self.has_ended = True
            else:
                self._edit(key)
        return "".join(finished)

    def interrupt(self) -> None:
        """Drop the line, as a terminal does at Ctrl-C; Up recalls it."""
        self._keys = ""
        if self.line:
            self._write("\n")
            self._remember(self.line)
            self.dropped = self.line
        self.line, self._recalled = "", []

    def _edit(self, key: str) -> None:
        line = self.line
        if key in _STEPS:
            self._recall(_STEPS[key])
        elif key in _ERASE:
            self._shorten(line[:-1])
        elif key == _WORD:
            self._shorten(line.rstrip()[: line.rstrip().rfind(" ") + 1])
        elif key == _LINE:
            self._shorten("")
        elif key.isprintable() or key == "\t":
            self.line += key
            self._write(key)

    def _remember(self, line: str) -> None:
        if len(line) > 1:  # not an answer
            self._typed.pop(line, None)
            self._typed[line] = None

    def _recall(self, step: int) -> None:
        if not self._recalled:
            # Earlier prompts can come from an agent, which opens a session again.
            prompts = [visible(one) for one in self._prompts() if one not in self._typed]
            self._recalled = [*prompts, *self._typed, self.line]
            self._at = len(self._recalled) - 1
        at = self._at + step
        if not 0 <= at < len(self._recalled):
            return
        if self._at == len(self._recalled) - 1:
            self._recalled[-1] = self.line
        self._at = at
        self._shorten("")
        self.line = self._recalled[at]
        self._write(self.line)

    def _shorten(self, line: str) -> None:
        """Erase what follows the beginning of the line; a folded line is written again below."""
        gone, width = self.line[len(line) :], self._width()
        self.line = line
        if "\n" in gone or "\t" in gone or width is None or cell_len(line + gone) >= width:
            self._write(f"\n{line}")
        else:
            self._write("\b \b" * cell_len(gone))


class KeyMode:
    """A terminal that passes keys on at once, and does not show them; Ctrl-C still interrupts."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._before = termios.tcgetattr(descriptor)

    def begin(self) -> None:
        """Pass keys on at once."""
        self._before = termios.tcgetattr(self._descriptor)
        mode = termios.tcgetattr(self._descriptor)
        mode[3] &= ~(termios.ICANON | termios.ECHO)
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, mode)

    def end(self) -> None:
        """Let the terminal edit lines again."""
        with suppress(termios.error):  # it was closed
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)
