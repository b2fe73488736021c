"""`accord chat` in a real terminal (tmux) in the middle of a turn: keys, sizes, signals, losses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from chat.forked import started_command
from chat.terminal import WAIT_S, Terminal, agent_process, needs_tmux, open_terminal
from needs import needs

pytestmark = needs_tmux


@pytest.fixture
def terminal(tmp_path: Path) -> Generator[Terminal]:
    with open_terminal(tmp_path, 80, 24) as made:
        yield made


def test_keys_and_the_mouse_work_while_an_answer_streams(terminal: Terminal) -> None:
    terminal.tmux("set", "-s", "set-clipboard", "on")
    terminal.start("--agent", "script")
    terminal.sees("Ask · Small")
    terminal.type("wrong\x15stream 20000 x\x7fa long answer\recho typed next")  # in one burst
    terminal.sees("· stream 20000 a long answer", "❯ echo typed next")
    terminal.press("Enter")
    terminal.until(lambda screen: "1 queued" in screen or "  typed next" in screen)
    terminal.sees("▌ echo typed next", "  typed next")

    terminal.mouse(64, 10, 5)
    terminal.sees("↓", "(Ctrl+End)")
    terminal.press("C-End")
    terminal.until(lambda screen: "(Ctrl+End)" not in screen)
    column, line = terminal.place("  typed next")
    terminal.mouse(0, column + 2, line)
    terminal.mouse(32, column + 6, line)
    terminal.mouse(0, column + 6, line, up=True)
    terminal.press("C-c")
    terminal.sees("Copied.")
    assert terminal.tmux("show-buffer") == "typed"


def test_question_stays_whole_at_every_size(terminal: Terminal) -> None:
    terminal.start("--agent", "script")
    terminal.sees("Ask · Small")
    terminal.type("permission")
    terminal.press("Enter")
    answers = ("Allow", "Always allow", "Reject", "Always reject")
    terminal.sees("asks for permission", *answers)
    for columns, lines in ((40, 24), (100, 24), (100, 10), (40, 10), (100, 24)):
        terminal.resize(columns, lines)
        terminal.until(
            lambda screen, columns=columns: (
                all(answer in screen for answer in ("asks for permission", *answers, "❯"))
                and "┓\n" in screen
                and max(len(line) for line in screen.split("\n")) == columns
            )
        )
    terminal.press("Escape")
    terminal.sees("F10 answers")
    terminal.press("F10", "y")
    terminal.sees("1 of 1 allowed.")


def test_conversation_continues_while_the_program_is_stopped(terminal: Terminal) -> None:
    terminal.start("--agent", "script")
    terminal.sees("Ask · Small")
    terminal.type("terminal sh -c 'read line < go; echo went on'")
    subprocess.run(["mkfifo", terminal.folder / "work" / "go"], check=True)
    terminal.press("Enter")
    terminal.sees("working")
    terminal.press("C-z")
    terminal.sees("Stopped")
    with (terminal.folder / "work" / "go").open("w") as go:  # until the command reads
        go.write("now\n")
    terminal.type("fg")
    terminal.press("Enter")
    terminal.sees("▌ terminal", "ended with status 0", "F1 help")
    terminal.type("echo again")
    terminal.press("Enter")
    terminal.sees("  again")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_signal_saves_the_draft_and_ends_the_agent(terminal: Terminal, name: str) -> None:
    terminal.start("--agent", "script")
    terminal.sees("Ask · Small")
    terminal.type("wait forever")
    terminal.press("Enter")
    terminal.sees("working")
    terminal.type("half a thought")
    terminal.sees("half a thought")
    chat, agent = terminal.chat, agent_process(terminal)
    os.kill(chat.pid, signal.Signals[name])
    gone, alive = psutil.wait_procs([chat, agent], WAIT_S)
    assert (len(gone), alive) == (2, [])
    terminal.until(lambda screen: screen.rstrip().endswith("$"))
    assert "half a thought" in terminal.saved
    terminal.start()
    terminal.sees("❯ half a thought", "Ask · Small")


def test_output_of_a_command_is_shown_while_it_runs(terminal: Terminal) -> None:
    terminal.tmux("set", "-s", "set-clipboard", "on")
    terminal.start("--agent", "script", "--protocol", "1", "--terminals")
    terminal.sees("Ask · Small")
    loop = r"for n in $(seq 1 500); do printf '\033[31mred\033[0m\033]0;evil\007 %d\n' $n; done"
    script = f"{loop}; read line < go; exit 3"
    (terminal.folder / "work" / "run").write_text(script)
    subprocess.run(["mkfifo", terminal.folder / "work" / "go"], check=True)
    terminal.type("terminal sh run")
    terminal.press("Enter")
    screen = terminal.sees("│ red 500", "working")  # the command still runs
    assert screen.count("│ red") == 8
    assert "red 400" not in screen
    assert "evil" not in screen
    colours = terminal.tmux("capture-pane", "-p", "-e").split("red 500")[0].split("\n")[-1]
    assert "\x1b[31m" not in colours
    terminal.press("F6", "v")  # all of it
    terminal.sees("│ red 1 ", "Esc leaves")
    column, line = terminal.place("red 12")
    terminal.mouse(0, column, line)
    terminal.mouse(32, column + 5, line)
    terminal.mouse(0, column + 5, line, up=True)
    terminal.press("C-c")
    terminal.until(lambda _: terminal.tmux("show-buffer") == "red 12")
    terminal.press("Escape", "Escape")
    with (terminal.folder / "work" / "go").open("w") as go:
        go.write("now\n")
    terminal.sees("exit status 3", "ended with status 3")


@contextmanager
def server(socket: Path, data: Path, *agent: str) -> Generator[subprocess.Popen[bytes]]:
    served = ["--", *started_command("-m", "accord", "agent", *agent)]
    process = subprocess.Popen(
        [sys.executable, "-m", "accord", "serve", "--unix", str(socket), *served],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "ACCORD_DATA": str(data)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(WAIT_S)


@needs("accord_coder")
def test_lost_server_is_found_again_and_nothing_is_lost(terminal: Terminal) -> None:
    socket, data = terminal.folder / "socket", terminal.folder / "data"
    terminal.resize(100, 60)
    with server(socket, data, "coder", "--model", "demo"):
        terminal.until(lambda _: socket.exists())
        terminal.start("--agent", f"unix:{socket}")
        terminal.sees("Default · Demo")
        terminal.type("create notes.txt hello")
        terminal.press("Enter")
        terminal.sees("asks for permission")
        terminal.press("F10", "y")
        terminal.sees("▌ create notes.txt hello", "notes.txt")
        terminal.until(lambda screen: "working" not in screen)
    terminal.sees("connection lost, connecting again")
    terminal.type("read notes.txt")
    terminal.press("Enter")
    terminal.sees("1 queued")
    with server(socket, data, "coder", "--model", "demo"):
        terminal.sees("▌ create notes.txt hello", "Connected again", "▌ read notes.txt", "hello")
        terminal.leave()


def test_prompt_of_a_lost_session_stays_in_the_queue(terminal: Terminal) -> None:
    socket, data = terminal.folder / "socket", terminal.folder / "data"
    with server(socket, data, "script"):
        terminal.until(lambda _: socket.exists())
        terminal.start("--agent", f"unix:{socket}")
        terminal.sees("Ask · Small")
        terminal.type("echo one")
        terminal.press("Enter")
        terminal.sees("▌ echo one")
    terminal.sees("connection lost, connecting again")
    terminal.type("echo two")
    terminal.press("Enter")
    terminal.sees("1 queued")
    with server(socket, data, "script"):
        terminal.sees("the session is not open", "tries again · 1 queued")
        terminal.press("C-r")
        terminal.sees("▌ echo one", "this is a new one", "▌ echo two", "  two")


def test_agent_that_reads_nothing_more_leaves_all_keys(terminal: Terminal) -> None:
    """A prompt of 600,000 bytes is more than the pipe to the agent holds."""
    terminal.start("--agent", "script")
    terminal.sees("Ask · Small")
    agent = agent_process(terminal)
    agent.suspend()
    terminal.tmux("set-buffer", "many words" * 6_000)
    for _ in range(10):
        terminal.tmux("paste-buffer", "-p")
    terminal.type("still here")
    terminal.sees("still here")
    terminal.press("Enter")
    terminal.sees("Esc cancels")
    terminal.type("next words")
    terminal.sees("❯ next words")
    terminal.press("Escape")
    terminal.until(lambda screen: "Esc cancels" not in screen)
    terminal.leave()
    agent.wait(WAIT_S)
