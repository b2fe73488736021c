"""`accord chat` in a real terminal (tmux): typing, resizing, stopping, dying, coming back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from chat.terminal import Terminal, agent_process, needs_tmux, open_terminal

pytestmark = needs_tmux


@pytest.fixture
def terminal(tmp_path: Path) -> Generator[Terminal]:
    with open_terminal(tmp_path) as made:
        yield made


def test_typing_resizing_cancelling_and_leaving(terminal: Terminal) -> None:
    terminal.start("--agent", "script")
    terminal.sees("Ask · Small", "F1 help")
    terminal.type("echo **one** " + " ".join(f"word{n}" for n in range(20)))
    terminal.press("Enter")
    terminal.sees("▌ echo **one** word0", "  one word0", "word19")
    terminal.resize(40, 20)
    terminal.until(lambda screen: "word19" in screen and "word13" in screen and "❯" in screen)
    terminal.resize(120, 40)
    terminal.sees("word19", "F1 help")
    terminal.type("wait forever")
    terminal.press("Enter")
    terminal.sees("▌ wait forever", "working", "Esc cancels")
    terminal.press("C-c")
    terminal.sees("Cancelled")
    terminal.type("permission")
    terminal.press("Enter")
    terminal.sees("script asks for permission", "PgUp/PgDn scroll")
    time.sleep(0.6)  # keys are ignored for a moment, on purpose
    terminal.press("y")
    terminal.sees("1 of 1 allowed.")
    terminal.leave()


def test_stopped_program_and_killed_agent_come_back(terminal: Terminal) -> None:
    terminal.start("--agent", "script")
    terminal.sees("Ask · Small")
    terminal.type("half a draft")
    terminal.sees("half a draft")
    terminal.press("C-z")
    terminal.until(lambda screen: "Stopped" in screen)
    terminal.type("fg")
    terminal.press("Enter")
    terminal.sees("half a draft", "F1 help")
    terminal.type("!")
    terminal.sees("❯ half a draft!")
    terminal.press("F8")
    terminal.sees(" 2 new session", "❯")
    terminal.until(lambda screen: "half a draft" not in screen)
    terminal.press("M-1")
    terminal.sees("❯ half a draft!")
    terminal.press("M-z")
    terminal.press("M-y")  # without a meaning
    terminal.press("M-2")
    terminal.until(lambda screen: "half a draft" not in screen)
    terminal.press("M-1")
    terminal.type("?")
    terminal.sees("❯ half a draft!?\n")
    terminal.press("C-c")  # clears the prompt
    terminal.until(lambda screen: "half a draft" not in screen)
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
    terminal.until(lambda screen: "not sent yet" in terminal.saved)
    terminal.close()
    with open_terminal(terminal.folder) as again:
        again.start()
        again.sees("not sent yet", "Ask · Small")


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
    assert "needs a terminal. `accord chat --lines` and `accord ask` work" in done.stderr


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
