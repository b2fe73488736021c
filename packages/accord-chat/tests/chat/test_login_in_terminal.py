"""The login command of an agent gets the terminal, and the chat comes back afterwards (tmux)."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from chat.terminal import Terminal, needs_tmux, open_terminal
from project import ROOT
from requirement import requirement

pytestmark = needs_tmux
AGENT = ROOT / "packages/accord-terminal/tests/cli/login_agent.py"
BUSY = """
import asyncio
from pathlib import Path
from accord import Agent, Turn


class Busy(Agent):
    async def prompt(self, turn: Turn) -> None:
        for number in range(100_000):
            await turn.say(f"tick {number} ")
            with Path("ticks").open("a") as file:
                file.write(".")
            await asyncio.sleep(0.01)


Busy().run()
"""


@pytest.fixture
def terminal(tmp_path: Path) -> Generator[Terminal]:
    (tmp_path / "busy.py").write_text(BUSY)
    shutil.copy(AGENT, tmp_path)
    # A short command, and a wide terminal: the command is on one line wherever the tests are.
    (tmp_path / "settings.toml").write_text(
        f"[agents.guarded]\ncommand = ['{sys.executable}', '../{AGENT.name}']\n"
        f"[agents.busy]\ncommand = ['{sys.executable}', '../busy.py']\n"
    )
    with open_terminal(tmp_path, columns=160) as made:
        yield made


def choose_terminal(terminal: Terminal) -> None:
    terminal.sees("guarded needs a login", "login_agent.py login", " 2  In a terminal")
    terminal.press("F10")
    terminal.sees("Esc does not log in")
    terminal.press("2")
    terminal.until(lambda screen: screen.rstrip().endswith("Password?"))


@requirement("R-AUTH-15", "R-AUTH-16", "R-AUTH-18")
def test_login_at_the_terminal_sends_the_prompt_that_waited(terminal: Terminal) -> None:
    terminal.start("--agent", "guarded")
    terminal.sees("guarded needs a login")
    terminal.type("hello")
    terminal.sees("❯ hello")
    terminal.press("Enter")
    terminal.sees("1 queued")
    choose_terminal(terminal)
    terminal.sees("the chat comes back when this command ends", f"{AGENT.name} login")
    terminal.type("right")
    terminal.press("Enter")
    terminal.sees("Logged in", "▌ hello", "  Welcome by password.")
    terminal.leave()


@requirement("R-AUTH-17")
def test_login_that_fails_or_is_interrupted_is_reported(terminal: Terminal) -> None:
    terminal.start("--agent", "guarded")
    choose_terminal(terminal)
    terminal.type("wrong")
    terminal.press("Enter")
    terminal.sees("wrong password", "Press Enter to go back to the chat")
    terminal.press("Enter")
    terminal.sees("ended with status 1", "Ctrl+R tries again")
    terminal.press("C-r")
    choose_terminal(terminal)
    terminal.press("C-c")
    terminal.until(lambda screen: screen.count("Press Enter to go back to the chat") == 2)
    terminal.press("C-c")  # once too often: it ends nothing
    terminal.press("Enter")
    terminal.sees("The login 'In a terminal' was interrupted", "Ctrl+R tries again")
    terminal.leave()


def test_other_sessions_do_not_write_to_the_terminal_meanwhile(terminal: Terminal) -> None:
    terminal.start("--agent", "busy")
    terminal.sees("F1 help", "❯")
    terminal.type("go")
    terminal.press("Enter")
    terminal.sees("tick 3 ")
    terminal.press("M-n")
    terminal.sees("Open a session of an agent", "guarded")
    terminal.type("guarded")
    terminal.sees("guarded  settings")
    terminal.press("Enter")
    choose_terminal(terminal)
    ticks = terminal.folder / "work" / "ticks"
    before = ticks.stat().st_size
    # More frames than Textual queues for a terminal that nobody writes to.
    terminal.until(lambda _: ticks.stat().st_size > before + 200)
    assert "tick" not in terminal.screen
    terminal.type("right")
    terminal.press("Enter")
    terminal.sees("Logged in", "1◐ busy: go")
    terminal.type("hello")
    terminal.press("Enter")
    terminal.sees("  Welcome by password.")
    terminal.leave()
