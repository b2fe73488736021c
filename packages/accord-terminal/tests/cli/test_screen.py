"""`accord ask` at a terminal: permission options, long commands, Ctrl-C, folded lines.

It has one path for both versions, whose events tests/client compares: each test has one of them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.screen import CTRL_C, Person, at_a_terminal

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="POSIX has terminals"),
    pytest.mark.slow,  # each starts two programs
]

ASK = [sys.executable, "-m", "accord", "ask"]
AGENTS = Path(__file__).parent / "agents.py"
WORDS = [f"word{number:03}" for number in range(200)]
QUIT_S = 1.0  # documented
TRIES = 3  # a busy machine may delay the program, so the fastest run counts


def command(agent: str, version: int, *words: str) -> list[str]:
    return [*ASK, "--agent", f"{sys.executable} {AGENTS} {agent} {version}", *words]


def asking(tmp_path: Path, agent: str, version: int, *words: str, **size: int) -> Any:
    return at_a_terminal(*command(agent, version, *words), cwd=tmp_path, **size)


def shown_words(person: Person) -> list[str]:
    return [word for word in person.emulator.text.split() if word.startswith("word")]


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        ([b"y\n", b"a\n", b"push\n", b"00019\n", b"01\n", b"4\n", b"2\n"], "branch"),
        ([b"Push to main\n"], "main"),
        ([b"\x04"], "no"),
    ],
    ids=["number", "name", "ctrl-d"],
)
def test_option_is_chosen_by_number_or_name(keys: list[bytes], chosen: str, tmp_path: Path) -> None:
    with asking(tmp_path, "pushes", 1, "go") as person:
        for key in keys:
            person.sees_next("Choose 1 to 3: ")
            person.types(key)
        assert person.leaves() == 0
    text = person.emulator.text
    assert "1) Push to main  (allows it once)" in text
    assert "2) Push to a branch  (allows it once)" in text
    assert "3) Do not push  (rejects it once)" in text
    assert f"Chosen: {chosen}." in text


def test_ambiguous_option_is_not_chosen(tmp_path: Path) -> None:
    with asking(tmp_path, "pushes_anyway", 2, "go") as person:
        person.sees_next("Choose 1 to 2: ")
        person.types(b"2\n")
        assert person.leaves() == 0
    assert "cannot distinguish this option from another one" in person.emulator.text
    assert "Chosen: None." in person.emulator.text


def test_long_command_is_paged_before_it_can_be_allowed(tmp_path: Path) -> None:
    with asking(tmp_path, "long_command", 1, "go", columns=60, lines=24) as person:
        pages = 0
        while "Choose 1 to 4: " not in person.seen:
            person.sees_next(": Enter shows them, s skips them ")
            assert "Choose" not in person.seen
            pages += 1
            person.types(b"\n")
            if pages == 5:
                person.sees("Choose 1 to 4: ")
        person.types(b"1\n")
        assert person.leaves() == 0
    lines = person.emulator.lines
    assert sum("echo line" in line for line in lines) == 100
    assert r"    rm -rf \u202e~\u3164" in lines  # invisible characters are escaped
    assert max(map(len, lines)) < 60
    assert sum("thing" in line for line in lines) <= 14  # the title is bounded
    assert "Allowed: True." in person.emulator.text


def test_ctrl_c_is_explained_and_no_text_is_lost_or_repeated(tmp_path: Path) -> None:
    with asking(tmp_path, "streams", 2, "go") as person:
        person.sees("half of it")
        person.types(CTRL_C)
        assert person.leaves() == 130
    assert "press Ctrl-C again to quit" in person.seen
    text = person.emulator.text
    assert shown_words(person) == WORDS
    assert text.count("Work for ever") == 1
    assert text.count("half of it") == 1
    assert "[cancelled]" in text
    assert "Ctrl-C" not in text  # it was only in the live region
    assert person.emulator.shows_cursor


def fastest_quit(run: Callable[[], float]) -> float:
    """Return the time that the fastest of a few runs took to quit, in seconds."""
    took_s = QUIT_S
    for _ in range(TRIES):
        took_s = run()
        if took_s < QUIT_S:
            break
    return took_s


def test_second_ctrl_c_quits_within_a_second(tmp_path: Path) -> None:
    def run() -> float:
        with asking(tmp_path, "stubborn", 1, "go") as person:
            person.sees("I go on.")
            person.types(CTRL_C)
            person.sees("I still go on.")
            began_s = time.monotonic()
            person.types(CTRL_C)
            assert person.leaves() == 130
            took_s = time.monotonic() - began_s
        assert person.emulator.text.count("I go on.") == 1
        assert person.emulator.text.count("I still go on.") == 1
        assert person.emulator.shows_cursor
        return took_s

    assert fastest_quit(run) < QUIT_S


def test_second_ctrl_c_ends_json_with_the_last_event(tmp_path: Path) -> None:
    def run() -> float:
        running = subprocess.Popen(
            command("stubborn", 2, "go", "--json"), stdout=subprocess.PIPE, cwd=tmp_path
        )
        assert running.stdout is not None
        lines: list[dict[str, Any]] = []
        with running:
            for number, words in enumerate(("I go on.\n\n", "I still go on.\n\n"), 1):
                while not lines or lines[-1].get("text") != words:
                    lines.append(json.loads(running.stdout.readline()))
                running.send_signal(signal.SIGINT)
                began_s = time.monotonic()
                assert number < 3
            lines += map(json.loads, running.stdout.read().splitlines())
            assert running.wait(20) == 130
            took_s = time.monotonic() - began_s
        assert lines[-1]["event"] == "end"
        assert lines[-1]["stop_reason"] == "cancelled"
        assert lines[-1]["text"].startswith("I go on.")
        assert sum(line["event"] == "end" for line in lines) == 1
        return took_s

    assert fastest_quit(run) < QUIT_S


def test_agent_that_ignores_a_cancel_is_stopped_after_a_timeout(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys; import accord.program as main; from accord_terminal.ask import cancellation;"
        "cancellation.CANCEL_S = 0.3;"
        "sys.exit(main.main(sys.argv[1:]))"
    )
    words = command("stubborn", 1, "go", "--json")[3:]
    running = subprocess.Popen(
        [sys.executable, str(program), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    assert running.stdout is not None
    with running:
        while b"I go on." not in running.stdout.readline():
            pass
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    assert running.returncode == 130
    assert json.loads(out.splitlines()[-1])["event"] == "end"
    assert b"cancelling; press Ctrl-C again to quit" in err
    assert b"The agent has not ended the turn within 0.3 seconds." in err


def test_thoughts_and_stderr_are_shown_by_options(tmp_path: Path) -> None:
    with asking(tmp_path, "streams", 1, "go", "--thoughts", "--verbose") as person:
        person.sees("half of it")
        person.types(CTRL_C)
        person.leaves()
    text = person.emulator.text
    assert "┊ I think **deeply**.\n┊ Of this." in text
    assert "stderr │ trying to connect to 192.0.2.1" in text
    with asking(tmp_path, "streams", 1, "go") as person:
        person.sees("half of it")
        person.types(CTRL_C)
        person.leaves()
    assert "deeply" not in person.emulator.text
    assert "192.0.2.1" not in person.emulator.text


def test_last_stderr_line_is_shown_while_the_agent_works(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(
        "import sys, time\nprint('retrying http://127.0.0.1:9', file=sys.stderr, flush=True)\n"
        "sys.stdin.readline()\ntime.sleep(60)\n"
    )
    agent = f"{sys.executable} {tmp_path / 'agent.py'}"

    def run() -> float:
        # Wide enough for the path of the interpreter, which is in the same line.
        with at_a_terminal(*ASK, "--agent", agent, "go", cwd=tmp_path, columns=300) as person:
            person.sees("retrying http://127.0.0.1:9")
            began_s = time.monotonic()
            person.types(CTRL_C)
            assert person.leaves() == 130
            return time.monotonic() - began_s

    assert fastest_quit(run) < QUIT_S


# Pipes.


def ran(tmp_path: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ASK, "--agent", f"{sys.executable} -m accord agent script", *words],
        cwd=tmp_path,
        env=os.environ | env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_forced_colours_in_a_pipe_add_no_cursor_commands(tmp_path: Path) -> None:
    done = ran(tmp_path, "tools", "--yes", FORCE_COLOR="1", TERM="xterm-256color")
    assert done.returncode == 0
    assert "\x1b[32m● \x1b[0mA call of kind read" in done.stderr
    for text in (done.stdout, done.stderr):
        assert "\x1b" not in re.sub(r"\x1b\[[\d;]*m", "", text)  # these are colours


def test_lines_in_a_pipe_are_not_folded(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text(f"print('{'x' * 300}')\n")
    done = ran(tmp_path, f"terminal {sys.executable} long.py", "--yes", COLUMNS="40")
    assert f"  │ {'x' * 300}\n" in done.stderr


@pytest.mark.parametrize("columns", [20, 200])
def test_folded_lines_have_a_gutter(columns: int, tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text(f"print('{'x' * 300}')\n")
    with asking(
        tmp_path, "script", 2, f"terminal {sys.executable} long.py", columns=columns
    ) as person:
        assert person.leaves() == 0
    shown = [line for line in person.emulator.lines if "xxx" in line]
    assert all(line.startswith("  │ x") for line in shown)
    assert sum(line.count("x") for line in shown) == 300
    assert max(map(len, shown)) < columns


@pytest.mark.parametrize("columns", [30, 200])
def test_folded_error_lines_are_indented(columns: int, tmp_path: Path) -> None:
    with asking(tmp_path, "script", 2, "crash", columns=columns) as person:
        assert person.leaves() == 1
    lines = person.emulator.lines
    at = lines.index("  last lines of its stderr:")
    said = [line for line in lines[at + 1 :] if line]
    assert all(line.startswith("    ") for line in said)
    assert max(map(len, said)) < columns
    assert "The script agent was told to crash" in " ".join(line.strip() for line in said)


def test_keys_pressed_while_the_agent_works_are_not_shown(tmp_path: Path) -> None:
    with asking(tmp_path, "streams", 2, "go") as person:
        person.sees("half of it")
        person.types(b"\n\nabc\n")
        person.types(CTRL_C)
        assert person.leaves() == 130
    assert shown_words(person) == WORDS
    assert person.emulator.text.count("Work for ever") == 1
    assert "abc" not in person.emulator.text


def test_ctrl_c_at_a_question_ends_its_line(tmp_path: Path) -> None:
    with asking(tmp_path, "pushes", 2, "go") as person:
        person.sees("Choose 1 to 3: ")
        person.types(CTRL_C)
        assert person.leaves() == 130
    question = next(line for line in person.emulator.lines if line.startswith("Choose"))
    assert question in ("Choose 1 to 3:", "Choose 1 to 3: ^C")
    assert person.emulator.text.count("[cancelled]") == 1


def test_piped_answer_on_the_same_terminal_is_not_overwritten(tmp_path: Path) -> None:
    ask = " ".join(map(shlex.quote, command("talks_and_works", 2, "go")))
    with at_a_terminal("/bin/sh", "-c", f"{ask} | cat", cwd=tmp_path) as person:
        person.leaves()
    text = person.emulator.text
    assert [text.count(word) for word in ("Before.", "Between.", "After.", "One", "Two")] == [1] * 5
