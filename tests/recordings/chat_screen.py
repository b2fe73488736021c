"""`accord chat` in a pseudo-terminal: types at it, and reads its screen."""

from __future__ import annotations

import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from fcntl import ioctl
from pathlib import Path

import psutil
import pyte

__all__ = ("ChatScreen", "NotSeen")

LINES, COLUMNS = 24, 80
KEYS = {"Enter": "\r", "Esc": "\x1b", "F4": "\x1bOS", "Ctrl+Q": "\x11", "Ctrl+C": "\x03"}
KEYS["Right"] = "\x1b[C"
BUSY = (" working ", " cancelling ", " starting ")
QUESTION = "asks for permission"
# The chat ignores keys for half a second after a question has come.
QUESTION_S = 0.7
QUIET_S = 0.3


class NotSeen(Exception):
    """What was expected did not come to the screen in time."""


class ChatScreen:
    """The running program, and its screen of 80 × 24."""

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        env: Mapping[str, str],
        *,
        wait_s: float,
        on_question: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Start the program; `on_question` gets the screen before a question is answered."""
        self.wait_s = wait_s
        self._on_question = on_question
        self._terminal, inner = pty.openpty()
        ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self._program = subprocess.Popen(
            [sys.executable, "-m", "accord", "chat", *words],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            cwd=folder,
            env={**env, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(inner)
        self._screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.ByteStream(self._screen)
        self._asked_at_s = 0.0

    @property
    def text(self) -> str:
        """What is on the screen."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    @property
    def is_busy(self) -> bool:
        """Whether the agent starts, works or is being cancelled."""
        return any(word in self.text for word in BUSY)

    def read(self, wait_s: float) -> bool:
        """Take over what the program writes; return False at its end."""
        if not select.select([self._terminal], [], [], wait_s)[0]:
            return True
        try:
            data = os.read(self._terminal, 1 << 16)
        except OSError:  # the program has ended
            return False
        self._stream.feed(data)
        return bool(data)

    def until(self, what: str, condition: Callable[[], object]) -> None:
        """Read until something is true; raise `NotSeen` with the screen after some time."""
        end = time.monotonic() + self.wait_s
        while not condition():
            if not self.read(0.05) or time.monotonic() > end:
                raise NotSeen(f"{what}\n{self.text}")

    def sees(self, *texts: str) -> None:
        """Wait until all texts are on the screen."""
        self.until(" · ".join(texts), lambda: all(text in self.text for text in texts))

    def works(self, text: str, *, answers: str) -> None:
        """Wait for a text while the agent works; a key answers its questions."""

        def is_seen() -> bool:
            self._answer(answers)
            return self.is_busy and not self._asked_at_s and text in self.text

        self.until(text, is_seen)

    def rests(self, *texts: str, answers: str | None = None) -> None:
        """Wait for one of the texts and for the end of the turn; a key answers questions."""
        quiet_since_s = time.monotonic()

        def is_at_rest() -> bool:
            nonlocal quiet_since_s
            self._answer(answers)
            is_shown = not texts or any(text in self.text for text in texts)
            if self.is_busy or self._asked_at_s or not is_shown:
                quiet_since_s = time.monotonic()
            return time.monotonic() - quiet_since_s > QUIET_S

        self.until(" or ".join(texts) or "the end of the turn", is_at_rest)

    def _answer(self, key: str | None) -> None:
        if QUESTION not in self.text:
            self._asked_at_s = 0.0
        elif not self._asked_at_s:
            self._asked_at_s = time.monotonic()
        elif key and time.monotonic() - self._asked_at_s > QUESTION_S:
            self._on_question(self.text)
            self._asked_at_s = time.monotonic()
            self.press(key)

    def press(self, key: str) -> None:
        """Press a key, or type a letter."""
        os.write(self._terminal, KEYS.get(key, key).encode())

    def paste(self, text: str) -> None:
        """Paste a text, which may have several lines."""
        os.write(self._terminal, f"\x1b[200~{text}\x1b[201~".encode())

    def send(self, prompt: str) -> None:
        """Write a prompt, and send it when it is shown."""
        self.paste(prompt)
        end = prompt.split()[-1][-20:]
        self.until("the prompt", lambda: end in "".join(self.text.split()))
        self.press("Enter")

    def leave(self) -> list[str]:
        """Quit with the keyboard; return the programs that are left."""
        program = psutil.Process(self._program.pid)
        children = program.children(recursive=True)
        self.press("Ctrl+Q")
        end = time.monotonic() + self.wait_s
        while self.read(0.05) and time.monotonic() < end:
            pass
        status = self._program.wait(self.wait_s)
        if status != 0:
            raise NotSeen(f"accord chat ended with status {status}\n{self.text}")
        _, left = psutil.wait_procs(children, timeout=5)
        return [process.name() for process in left]

    def close(self) -> None:
        """End the program, however it is."""
        if self._program.poll() is None:
            self._program.terminate()
            try:
                self._program.wait(10)
            except subprocess.TimeoutExpired:
                self._program.kill()
                self._program.wait()
        os.close(self._terminal)
