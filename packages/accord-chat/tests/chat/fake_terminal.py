"""A program in a pseudo-terminal whose other end answers questions, as some terminals do."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyte

from chat.forked import Forked

__all__ = ("FakeTerminal",)

WAIT_S = 30.0
KITTY = re.compile(rb"\x1b_G([^;\x1b]*);?([^\x1b]*)\x1b\\")
SIXEL = re.compile(rb"\x1bP[0-9;]*q([^\x1b]*)\x1b\\")
ATTRIBUTES = b"\x1b[c"
CELL_SIZE = b"\x1b[16t"


class FakeTerminal:
    """Runs `python WORDS`, and keeps what it writes.

    `kitty`, `attributes` and `cell` are its answers.
    """

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        *,
        kitty: bool = False,
        attributes: bytes = b"",
        cell: bytes = b"",
        size: tuple[int, int] = (80, 24),
    ) -> None:
        self.output = bytearray()
        self.screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self.screen)
        self._answers = {CELL_SIZE: cell, ATTRIBUTES: attributes}  # in the order of the questions
        self._kitty = kitty
        self._shown = 0  # bytes of the output that are on the screen
        self._answered = 0
        self._end, other = os.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        env = {**os.environ, "TERM": "xterm-256color", "TMUX": "", **environment}
        self._program = Forked(words, [other, other, other], cwd=folder, env=env)
        os.close(other)

    def type(self, data: bytes) -> None:
        os.write(self._end, data)

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def until(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + WAIT_S
        while not condition():
            left = end - time.monotonic()
            assert left > 0, f"It did not become true. The screen:\n{self.text}"
            self._read(min(left, 0.2))

    def sees(self, *texts: str) -> None:
        self.until(lambda: all(text in self.text for text in texts))

    def kitty_commands(self) -> list[tuple[dict[str, str], bytes]]:
        """Return the commands of the graphics protocol: keys, and data."""
        return [
            (dict(part.split("=") for part in keys.decode().split(",")), data)
            for keys, data in KITTY.findall(self.output)
        ]

    def sixels(self) -> list[bytes]:
        return SIXEL.findall(self.output)

    def close(self) -> None:
        if self._program.poll() is None:
            os.killpg(self._program.pid, signal.SIGKILL)
        self._program.wait(WAIT_S)
        os.close(self._end)

    def _read(self, wait_s: float) -> None:
        readable, _, _ = select.select([self._end], [], [], wait_s)
        if not readable:
            return
        try:
            self.output += os.read(self._end, 65536)
        except OSError:  # the program has ended
            return
        self._answer()
        self._show()

    def _answer(self) -> None:
        for found in KITTY.finditer(self.output, self._answered):
            keys = found[1].split(b",")
            if b"a=q" in keys and self._kitty:
                number = next(key for key in keys if key.startswith(b"i="))
                self.type(b"\x1b_G" + number + b";OK\x1b\\")
            self._answered = found.end()
        for asked, answer in self._answers.items():
            at = self.output.find(asked, self._answered)
            if at >= 0:
                self._answers[asked] = b""
                self.type(answer)

    def _show(self) -> None:
        """Put the finished part of the output on the screen, without graphics."""
        end = self.output.rfind(b"\x1b_G", self._shown), self.output.rfind(b"\x1bP", self._shown)
        start = max(end)
        upto = len(self.output)
        if start >= 0 and self.output.find(b"\x1b\\", start) < 0:
            upto = start
        part = bytes(self.output[self._shown : upto])
        self._shown = upto
        part = SIXEL.sub(b"", KITTY.sub(b"", part))
        # pyte does not know what comes before the final character of these.
        self._stream.feed(re.sub(rb"\x1b\[[<>=?][\d;]*(?:\$p|[uc])", b"", part))
