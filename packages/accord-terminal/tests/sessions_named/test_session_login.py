"""Sessions whose agent needs a login: the client says what to run, or runs it at the terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cli.screen import at_a_terminal
from requirement import requirement
from sessions_named.machine import PROGRAM, Machine, eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="sessions need POSIX"),
]
AGENT = Path(__file__).parent.parent / "cli" / "login_agent.py"
KEY = "key.txt"  # written by the login, in the folder of the agent


@pytest.fixture
def guarded(machine: Machine) -> Machine:
    text = f"[agents.guarded]\ncommand = ['{sys.executable}', '{AGENT}']\n"
    (machine.base / "config" / "settings.toml").write_text(text)
    return machine


@requirement("R-AUTH-12")
@pytest.mark.parametrize("words", [("session", "new"), ("ask", "hi")], ids=["new", "ask"])
def test_what_to_run_is_said(guarded: Machine, words: tuple[str, ...]) -> None:
    command = (*words, "-s", "fix", "--agent", "guarded")
    ended = guarded.run(*command)
    assert ended.returncode == 1
    assert "Authentication required: log in with `accord agents login guarded`" in ended.stderr
    (guarded.work / KEY).write_text("right")
    assert guarded.run(*command).returncode == 0


def test_agent_without_a_name_is_named_by_its_command(machine: Machine) -> None:
    ended = machine.run("session", "new", "--agent", f"{sys.executable} {AGENT}")
    assert f"log in with `accord agents login '{sys.executable} {AGENT}'`" in ended.stderr


@requirement("R-AUTH-18", "R-AUTH-28")
def test_agent_that_refuses_a_prompt_is_started_again_for_the_next(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    machine.ok("session", "prompt", "-s", "fix", "logout")
    ended = machine.run("session", "prompt", "-s", "fix", "echo hello")
    assert ended.returncode == 1
    assert "Authentication required: log in with `accord agents login script`" in ended.stderr
    eventually(lambda: machine.owners() == [])
    assert machine.ok("session", "prompt", "-s", "fix", "echo hello") == "hello\n"


@requirement("R-AUTH-12", "R-AUTH-15")
@pytest.mark.parametrize(
    ("words", "shown"),
    [(("session", "new"), "created the session fix"), (("ask", "hi"), "Welcome by password.")],
    ids=["new", "ask"],
)
def test_login_is_offered_at_a_terminal(
    guarded: Machine, words: tuple[str, ...], shown: str
) -> None:
    command = (*PROGRAM, *words, "-s", "fix", "--agent", "guarded")
    with at_a_terminal(*command, cwd=guarded.work) as person:
        person.sees("Log in now?")
        person.types(b"\n")
        person.sees("Log in with")
        person.types(b"2\n")
        person.sees("Password? ")
        person.types(b"right\n")
        person.sees(shown)
        assert person.leaves() == 0


def test_declined_login_is_an_error(guarded: Machine) -> None:
    command = (*PROGRAM, "session", "new", "-s", "fix", "--agent", "guarded")
    with at_a_terminal(*command, cwd=guarded.work) as person:
        person.sees("Log in now?")
        person.types(b"n\n")
        assert person.leaves() == 1
    assert list(guarded.store) == []
