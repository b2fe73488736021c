"""`accord chat` in a real terminal (tmux): typing, resizing, stopping, dying, coming back."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

import psutil
import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux"),
]
WAIT_S = 30.0
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
            time.sleep(0.05)
        raise AssertionError(f"It did not become true. The screen:\n{self.screen}")

    def sees(self, *texts: str) -> str:
        return self.until(lambda screen: all(text in screen for text in texts))

    def start(self, *words: str) -> None:
        self.type(shlex.join([sys.executable, "-m", "accord", "chat", *words]))
        self.press("Enter")

    def close(self) -> None:
        self.tmux("kill-server")


@pytest.fixture
def terminal(tmp_path: Path) -> Generator[Terminal]:
    made = Terminal(tmp_path)
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


def test_typing_cancelling_and_leaving(terminal: Terminal) -> None:
    terminal.start("--agent", "script")
    terminal.sees("Ask · Small", "F1 help")
    terminal.type("echo one **two** three")
    terminal.press("Enter")
    terminal.sees("▌ echo one **two** three", "  one two three")
    terminal.type("wait forever")
    terminal.press("Enter")
    terminal.sees("working", "Esc cancels")
    terminal.press("C-c")
    terminal.sees("Cancelled")
    terminal.type("permission")
    terminal.press("Enter")
    terminal.sees("script asks for permission", "PgUp/PgDn scroll")
    time.sleep(0.6)  # keys are ignored for a moment, on purpose
    terminal.press("y")
    terminal.sees("1 of 1 allowed.")
    terminal.press("C-q")
    terminal.until(lambda screen: screen.rstrip().endswith("$"))


def test_window_of_100_columns_becomes_one_of_40(terminal: Terminal) -> None:
    terminal.start("--agent", "script")
    terminal.sees("Ask · Small")
    terminal.type("echo " + " ".join(f"word{n}" for n in range(20)))
    terminal.press("Enter")
    terminal.sees("word19")
    terminal.tmux("resize-window", "-x", "40", "-y", "20")
    terminal.until(lambda screen: "word19" in screen and "word13" in screen and "❯" in screen)
    terminal.tmux("resize-window", "-x", "120", "-y", "40")
    terminal.sees("word19", "F1 help")


def test_stopped_program_comes_back(terminal: Terminal) -> None:
    terminal.start("--agent", "script")
    terminal.sees("Ask · Small")
    terminal.type("half a draft")
    terminal.sees("half a draft")
    terminal.press("C-z")
    terminal.until(lambda screen: "Stopped" in screen)
    terminal.type("fg")
    terminal.press("Enter")
    terminal.sees("half a draft", "F1 help")
    terminal.press("C-c")  # clears the prompt
    terminal.type("echo back")
    terminal.press("Enter")
    terminal.sees("  back")


def test_killed_agent_is_reported_and_started_again(terminal: Terminal) -> None:
    terminal.start("--agent", "script")
    terminal.sees("Ask · Small")
    terminal.type("wait forever")
    terminal.press("Enter")
    terminal.sees("working")
    os.kill(agent_process(terminal).pid, signal.SIGKILL)
    terminal.sees("Ctrl+R starts it again")
    terminal.press("C-r")
    terminal.until(lambda screen: "starts it again" not in screen and "starting" not in screen)
    terminal.type("echo alive")
    terminal.press("Enter")
    terminal.sees("  alive")


def test_draft_comes_back_after_a_hang_up(terminal: Terminal) -> None:
    terminal.start("--agent", "script")
    terminal.sees("Ask · Small")
    terminal.type("not sent yet")
    terminal.sees("not sent yet")
    time.sleep(2.0)  # drafts are saved after a second
    terminal.close()
    again = Terminal(terminal.folder)
    try:
        again.start()
        again.sees("not sent yet", "Ask · Small")
    finally:
        again.close()


def test_without_a_terminal_it_says_what_works(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "accord", "chat"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert "needs a terminal; `accord ask` works without one" in done.stderr


def test_session_is_shared_with_another_client(terminal: Terminal) -> None:
    terminal.start("-s", "fix", "--agent", "script")
    terminal.sees("session fix", "F1 help")
    terminal.type("echo from the chat")
    terminal.press("Enter")
    terminal.sees("  from the chat")
    environment = {
        **os.environ,
        "XDG_STATE_HOME": f"{terminal.folder}/state",
        "ACCORD_CONFIG": str(terminal.folder),
    }

    def accord(*words: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "accord", *words],
            cwd=terminal.folder / "work",
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout

    try:
        assert accord("ask", "-s", "fix", "echo from a script") == "from a script\n"
        terminal.sees("  from the chat", "  from a script")
        terminal.press("C-q")
        terminal.until(lambda screen: screen.rstrip().endswith("$"))
        assert "idle" in accord("session", "list")  # it stays open
    finally:
        accord("session", "close", "-s", "fix")
