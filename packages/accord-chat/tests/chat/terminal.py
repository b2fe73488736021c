"""A shell in tmux, with `accord chat` in it."""

from __future__ import annotations

import itertools
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

__all__ = ("WAIT_S", "Terminal", "agent_process", "needs_tmux", "open_terminal")

needs_tmux = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux"),
]
WAIT_S = 30.0
POLL_S = 0.1  # each look at the screen is a process
NUMBERS = itertools.count()  # a server that ends does not take the clients of the next one


class Terminal:
    """A shell in tmux."""

    def __init__(self, folder: Path, columns: int = 100, lines: int = 30) -> None:
        self.folder = folder
        self.socket = folder / f"tmux{next(NUMBERS)}"
        size = ["-x", str(columns), "-y", str(lines)]
        shell = f"env PS1='$ ' XDG_STATE_HOME={folder}/state ACCORD_CONFIG={folder} sh -i"
        work = folder / "work"
        work.mkdir(exist_ok=True)
        self.tmux("-f", "/dev/null", "new-session", "-d", *size, "-c", str(work), shell)

    def tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self.socket), *words], capture_output=True, text=True, timeout=20
        )
        return done.stdout

    @property
    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-l", text)

    def until(self, condition: Callable[[str], object]) -> str:
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            if condition(screen := self.screen):
                return screen
            time.sleep(POLL_S)
        raise AssertionError(f"It did not become true. The screen:\n{self.screen}")

    def sees(self, *texts: str) -> str:
        return self.until(lambda screen: all(text in screen for text in texts))

    @property
    def saved(self) -> str:
        """What is saved of the chat."""
        files = (self.folder / "state").rglob("*.json")
        return "".join(file.read_text("utf-8") for file in files)

    @property
    def chat(self) -> psutil.Process:
        """The process of the chat."""
        shell = psutil.Process(int(self.tmux("display-message", "-p", "#{pane_pid}")))
        return next(one for one in shell.children() if "chat" in one.cmdline())

    def start(self, *words: str) -> None:
        self.type(shlex.join([sys.executable, "-m", "accord", "chat", *words]))
        self.press("Enter")

    def resize(self, columns: int, lines: int) -> None:
        self.tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def mouse(self, button: int, column: int, line: int, *, up: bool = False) -> None:
        """Send an event of the mouse: 0 the left button, 32 a move with it, 64 and 65 the wheel."""
        self.type(f"\x1b[<{button};{column + 1};{line + 1}{'m' if up else 'M'}")

    def place(self, text: str) -> tuple[int, int]:
        """Return the column and the last line where a text is."""
        lines = self.screen.split("\n")
        found = max(number for number, line in enumerate(lines) if text in line)
        return lines[found].index(text), found

    def leave(self) -> None:
        self.press("C-q")
        self.until(lambda screen: screen.rstrip().endswith("$"))

    def close(self) -> None:
        self.tmux("kill-server")


@contextmanager
def open_terminal(folder: Path, columns: int = 100, lines: int = 30) -> Generator[Terminal]:
    """Open a terminal, and close it with everything in it."""
    made = Terminal(folder, columns, lines)
    try:
        yield made
    finally:
        made.close()


def agent_process(terminal: Terminal) -> psutil.Process:
    """Return the process of the script agent below the shell of this terminal."""
    shell = psutil.Process(int(terminal.tmux("display-message", "-p", "#{pane_pid}")))
    (found,) = (
        process
        for process in shell.children(recursive=True)
        if process.cmdline()[-2:] == ["agent", "script"]
    )
    return found
