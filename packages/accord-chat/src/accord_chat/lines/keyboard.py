"""Reads lines from the standard input while the event loop runs.

In a terminal, Up and Down recall earlier lines; a simple terminal edits the line itself.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import select
import signal
import stat
import sys
import threading
from collections.abc import Callable

from accord_chat.lines.line_editor import KeyMode, LineEditor, can_edit

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
        self._editor = editor if editor is not None and can_edit(descriptor) else None
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
