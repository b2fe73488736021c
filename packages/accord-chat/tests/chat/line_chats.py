"""`accord chat --lines` as a process, on a terminal or in pipes."""

from __future__ import annotations

import os
import select
import shlex
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from chat.forked import Forked, command

# What changes the behaviour of the program, and belongs to the terminal of the tests.
FOREIGN = {"VISUAL", "EDITOR", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "NO_COLOR", "VTE_VERSION"}

__all__ = ("AGENT", "LinesChat")

WAIT_S = 20.0


# The command of `line_agent.py`.
AGENT = shlex.join(command(str(Path(__file__).with_name("line_agent.py"))))


class LinesChat:
    """Types lines and reads what was printed."""

    def __init__(
        self,
        folder: Path,
        *words: str,
        terminal: bool = False,
        columns: int = 200,
        mode: str = "--lines",
        **env: str,
    ) -> None:
        work = folder / "work"
        work.mkdir(exist_ok=True)
        self.work = work
        self.text = ""
        self._seen = 0
        self._is_terminal = terminal
        argv = ["-m", "accord", "chat", *mode.split(), *words]
        environment = {
            **{name: value for name, value in os.environ.items() if name not in FOREIGN},
            "XDG_STATE_HOME": str(folder / "state"),
            "ACCORD_CONFIG": str(folder),
            **env,
        }
        if terminal:
            import termios  # not on Windows

            self._output, inner = os.openpty()
            self._input = self._output
            termios.tcsetwinsize(inner, (24, columns))
            given = [inner, inner, inner]
        else:
            taken, self._input = os.pipe()
            self._output, printed = os.pipe()
            given = [taken, printed, printed]
        self.process = Forked(argv, given, cwd=work, env=environment, takes_terminal=terminal)
        for descriptor in {*given}:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(WAIT_S)
        os.close(self._output)
        self._close_input()

    def _close_input(self) -> None:
        if self._input >= 0 and not self._is_terminal:
            os.close(self._input)
            self._input = -1

    @property
    def new(self) -> str:
        """What was printed since the last thing that was waited for."""
        return self.text[self._seen :]

    def type(self, line: str) -> None:
        """Type a line and Enter."""
        self.write(f"{line}\n".encode())

    def write(self, data: bytes) -> None:
        os.write(self._input, data)

    def end_input(self) -> None:
        """Press Ctrl-D, or close the pipe."""
        if self._is_terminal:
            self.write(b"\x04")
        else:
            self._close_input()

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        if self._is_terminal:
            self.write(b"\x03")
        else:
            self.process.send_signal(signal.SIGINT)

    def until(self, condition: Callable[[str], bool]) -> str:
        """Wait until this is true of what is new."""
        end = time.monotonic() + WAIT_S
        while not condition(self.new):
            if time.monotonic() > end or not self._read(end):
                raise AssertionError(f"It did not come. All that was printed:\n{self.text}")
        return self.new

    def sees(self, *texts: str) -> str:
        """Wait for all these texts, and go on below the last of them."""
        new = self.until(lambda new: all(text in new for text in texts))
        self._seen += max(new.index(text) + len(text) for text in texts)
        return new

    def _read(self, end: float) -> bool:
        ready, _, _ = select.select([self._output], [], [], max(end - time.monotonic(), 0))
        try:
            data = os.read(self._output, 65536) if ready else b""
        except OSError:  # the program has ended
            data = b""
        self.text += data.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(data)

    def answer(self, text: str) -> None:
        """Answer a question; again, if it had only just come."""
        self.type(text)
        if "only just come" in self.until(lambda new: "answered" in new or "only just" in new):
            self.sees("only just come")
            self.answer(text)

    def status(self) -> int:
        """Read to the end; return the exit status."""
        end = time.monotonic() + WAIT_S
        while self._read(end):
            pass
        return self.process.wait(WAIT_S)
