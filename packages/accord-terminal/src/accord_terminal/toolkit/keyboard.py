"""Reads lines from the standard input while the event loop runs.

`Keyboard` passes whole lines on. In a terminal, `LineEditor` edits the line that is typed, as a
simple terminal itself does, and recalls earlier ones with Up and Down. The cursor stays at the end
of the line, and nothing else of the screen is drawn again.
"""

from __future__ import annotations

import asyncio
import atexit
import codecs
import contextlib
import os
import re
import select
import signal
import stat
import sys
import threading
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


def _can_edit(descriptor: int) -> bool:
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


CHUNK = 65536
PASTE_S = 0.1  # a line that comes within this time after another was pasted, too


class Keyboard:
    """Passes whole lines on, without their ends, and None at the end of the input."""

    def __init__(
        self,
        on_line: Callable[[str | None], None],
        descriptor: int = 0,
        *,
        editor: LineEditor | None = None,
    ) -> None:
        self._editor = editor if editor is not None and _can_edit(descriptor) else None
        self._mode = KeyMode(descriptor) if self._editor is not None else None
        self.is_terminal = os.isatty(descriptor)
        self._unfinished = ""  # before the end of the input
        self._descriptor = descriptor
        self._on_line = on_line
        self._loop = asyncio.get_running_loop()
        self._data = b""
        self._is_reading = False
        self._has_ended = False
        self._pasted: asyncio.TimerHandle | None = None
        self._can_wait = sys.platform != "win32" and not stat.S_ISREG(os.fstat(descriptor).st_mode)

    def resume(self) -> None:
        """Begin to read, or continue after `pause`."""
        if self._is_reading or self._has_ended:
            return
        self._is_reading = True
        if self._mode is not None:
            self._begin_keys(self._mode)
        if self._can_wait:
            try:
                self._loop.add_reader(self._descriptor, self._read)
            except PermissionError:  # epoll refuses /dev/null
                self._can_wait = False
        if not self._can_wait:
            threading.Thread(target=self._read_all, name="accord keyboard", daemon=True).start()

    def pause(self) -> None:
        """Leave the terminal to another program."""
        if self._is_reading and self._can_wait:
            self._loop.remove_reader(self._descriptor)
            self._is_reading = False
            if self._mode is not None:
                self._mode.end()
                atexit.unregister(self._mode.end)
                self._loop.remove_signal_handler(signal.SIGCONT)

    def interrupt(self) -> None:
        """Drop the line that is typed, as a terminal does that edits it itself."""
        if self._editor is not None and self._is_reading:
            self._editor.interrupt()

    def _begin_keys(self, mode: KeyMode) -> None:
        mode.begin()
        atexit.register(mode.end)
        # The shell has changed it while the program was stopped.
        self._loop.add_signal_handler(signal.SIGCONT, mode.begin)

    def close(self) -> str:
        """Read no more; return what was typed and is not a whole line, or not passed on yet."""
        self.pause()
        if self._pasted is not None:
            self._pasted.cancel()
        data = _decoded(self._data.replace(b"\\\n", b"\n"))
        line = "" if self._editor is None else self._editor.line or self._editor.dropped
        parts = (part.strip("\n") for part in (self._unfinished, data, line))
        return "\n".join(filter(None, parts))

    def _read_all(self) -> None:
        """Read what cannot be waited for: files, and terminals of Windows."""
        data = b"?"
        while data:
            try:
                data = os.read(self._descriptor, CHUNK)
            except OSError:
                data = b""
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._take, data)

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, CHUNK)
        except OSError:  # the terminal was closed
            data = b""
        self._take(data)

    def _take(self, data: bytes) -> None:
        if not data:
            self._end()
            return
        if self._editor is not None:
            data = self._editor.feed(data).encode()
            if self._editor.has_ended:
                self._data += data
                self._end()
                return
            if not data:
                return
        self._data += data
        if not self.is_terminal:
            self._deliver()
            return
        if self._pasted is not None:
            self._pasted.cancel()
        self._pasted = self._loop.call_later(PASTE_S, self._deliver_pasted)

    def _deliver(self) -> None:
        *lines, self._data = self._data.split(b"\n")
        for line in lines:
            self._on_line(_decoded(line))

    def _deliver_pasted(self) -> None:
        self._pasted = None
        if self._can_wait and self._is_reading and self._is_more():
            self._pasted = self._loop.call_later(PASTE_S, self._deliver_pasted)
            return
        whole, end, self._data = self._data.rpartition(b"\n")
        if end and whole.startswith(b":"):  # several commands
            for line in whole.split(b"\n"):
                self._on_line(_decoded(line))
        elif end:
            self._on_line(_decoded(whole.replace(b"\\\n", b"\n")))

    def _is_more(self) -> bool:
        return bool(select.select([self._descriptor], [], [], 0)[0])

    def _end(self) -> None:
        self.pause()
        self._has_ended = True
        if self._pasted is not None:
            self._pasted.cancel()
        *lines, rest = self._data.split(b"\n")
        self._data = b""
        for line in lines:
            self._on_line(_decoded(line))
        if rest and self.is_terminal:
            self._unfinished = _decoded(rest)
        elif rest:
            self._on_line(_decoded(rest))
        self._on_line(None)


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", "replace").replace("\r", "")
