"""`accord ask --steer`: lines are said to the agent while it works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from accord.program import main
from cli.screen import CTRL_C
from cli.test_at_a_terminal import ASK, asking
from forked import forked_programs

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX has terminals")
DEAF = Path(__file__).parents[1] / "sessions_named" / "deaf_agent.py"


def piped(tmp_path: Path, lines: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ASK, *words],
        input=lines,
        capture_output=True,
        text=True,
        timeout=50,
        cwd=tmp_path,
        check=False,
    )


def test_lines_of_a_pipe_are_said_in_their_order(tmp_path: Path) -> None:
    with forked_programs():
        words = ("--agent", "script", "--steer", "listen")
        done = piped(tmp_path, "leave it\n\nstop\ntoo late\n", *words)
        assert done.returncode == 0
        assert done.stdout.index("I heard: leave it") < done.stdout.index("I have stopped.")
        assert done.stderr.splitlines()[:2] == [
            "› leave it: the agent has it",
            "› stop: the agent has it",
        ]
        # Without --steer, standard input is not read.
        done = piped(tmp_path, "stop\n", "--agent", "script", "echo Hello.")
        assert (done.stdout, done.stderr) == ("Hello.\n", "")


def test_agent_that_cannot_be_steered_gets_them_next(tmp_path: Path) -> None:
    with forked_programs():
        agent = f"{sys.executable} {DEAF}"
        words = ("--agent", agent, "--protocol", "1", "--steer", "first")
        done = piped(tmp_path, "second\n", *words)
        assert done.returncode == 0
        assert "got: first" in done.stdout
        if "not sent" not in done.stderr:  # the first turn can be over before
            assert "› second: queued: the agent cannot be steered" in done.stderr
            assert "got: second" in done.stdout


def test_prompt_cannot_come_from_there_too(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ((), ("-",), ("--file", "-", "hi")):
        assert main(["ask", "--steer", *words]) == 2
        assert "--steer reads standard input" in capsys.readouterr().err


@pytest.mark.slow
def test_line_is_typed_below_the_output(tmp_path: Path) -> None:
    with asking(tmp_path, "script", 1, "--steer", "listen") as person:
        person.sees("I am listening.")
        person.types(b"leave tt\x7fhe slow")
        person.sees("› leave the slow")
        person.types(b"\n")
        person.sees("› leave the slow: the agent has it")
        person.sees("I heard: leave the slow")
        person.types(b"unfinished")
        person.sees("› unfinished")
        person.types(CTRL_C)
        assert person.leaves() == 130
        assert "› unfinished: not sent: the turn has ended" in person.seen


@pytest.mark.slow
def test_question_has_the_keyboard_while_it_is_open(tmp_path: Path) -> None:
    with asking(tmp_path, "script", 2, "--steer", "permission") as person:
        person.sees("Choose 1 to 4: ")
        person.types(b"1\n")
        assert person.leaves() == 0
        assert "1 of 1 allowed" in person.seen
        assert "› 1" not in person.seen
