"""Agents that hang in `initialize`: nobody waits for them who need not, and no process stays."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Generator
from contextlib import suppress

import pytest

from accord_terminal.sessions.records import has_owner
from cli.screen import CTRL_C, at_a_terminal
from requirement import requirement
from sessions_named.machine import PROGRAM, Machine, eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="sessions need POSIX"),
]

# It hangs while `hang` exists in its folder, and says who it is.
_AGENT = """
import os, pathlib, runpy, signal, sys
if pathlib.Path("hang").exists():
    pathlib.Path("pid").write_text(str(os.getpid()))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        signal.pause()
os.execv(sys.executable, [sys.executable, "-m", "accord", "agent", "script"])
"""


class Hanging:
    """A machine with an agent that hangs."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.hang = machine.work / "hang"
        self.hang.touch()
        self.file = machine.base / "agent.py"
        self.file.write_text(_AGENT)
        self.new = ("session", "new", "-s", "bad", "--agent", f"{sys.executable} {self.file}")

    def wait_until_it_hangs(self) -> int:
        file = self.machine.work / "pid"
        return int(eventually(lambda: file.exists() and file.read_text()))

    def is_over(self, pid: int) -> None:
        """Check that no process of the session is left."""
        eventually(lambda: self.machine.owners() == [])
        eventually(lambda: not self.is_alive(pid))

    def is_alive(self, pid: int) -> bool:
        """Return whether the agent is running."""
        return str(self.file) in self.machine.programs().get(pid, ())


@pytest.fixture
def hanging(machine: Machine) -> Generator[Hanging, None, None]:
    found = Hanging(machine)
    yield found
    file = machine.work / "pid"
    if file.exists() and found.is_alive(int(file.read_text())):
        with suppress(ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGKILL)


@requirement("R-NAMED-03")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["term", "int"])
def test_signal_ends_an_owner_whose_agent_hangs(hanging: Hanging, number: int) -> None:
    starter = hanging.machine.start(*hanging.new)
    agent = hanging.wait_until_it_hangs()
    os.kill(hanging.machine.owner(), number)
    _, stderr = starter.communicate(timeout=30)
    assert starter.returncode == 1
    assert "it received SIG" in stderr
    hanging.is_over(agent)
    assert [*hanging.machine.store] == []  # it was never opened


def test_commands_do_not_wait_for_an_agent_that_hangs(hanging: Hanging) -> None:
    machine = hanging.machine
    starter = machine.start(*hanging.new)
    agent = hanging.wait_until_it_hangs()
    (row,) = json.loads(machine.ok("session", "list", "--json"))
    assert row["state"] == "starting"
    assert "starting" in machine.ok("session", "show", "-s", "bad")
    assert "nothing to cancel" in machine.ok("session", "cancel", "-s", "bad")
    assert machine.run("session", "cancel", "-s", "bad", "p1").returncode == 1
    assert "deleted 0 sessions" in machine.ok("session", "prune")
    assert starter.poll() is None  # all that left it alone
    assert machine.ok("session", "close", "-s", "bad") == "closed the session bad\n"
    _, stderr = starter.communicate(timeout=30)
    assert (starter.returncode, "the session was closed" in stderr) == (1, True)
    hanging.is_over(agent)
    assert [*machine.store] == []


def test_closed_session_that_was_open_before_stays_in_the_store(hanging: Hanging) -> None:
    machine = hanging.machine
    hanging.hang.unlink()
    machine.ok(*hanging.new)
    os.kill(machine.owner(), signal.SIGTERM)
    eventually(lambda: machine.owners() == [])
    hanging.hang.touch()
    prompts = [machine.start("session", "prompt", "-s", "bad", "echo hello")]
    agent = hanging.wait_until_it_hangs()
    prompts.append(machine.start("session", "prompt", "-s", "bad", "echo again"))
    machine.ok("session", "close", "-s", "bad")
    for prompt in prompts:
        _, stderr = prompt.communicate(timeout=30)
        assert prompt.returncode in (1, 4), stderr
    hanging.is_over(agent)
    assert machine.record("bad").closed


@requirement("R-NAMED-03")
@pytest.mark.parametrize("command", ["new", "ask"])
def test_ctrl_c_ends_a_start_that_nobody_else_waits_for(hanging: Hanging, command: str) -> None:
    machine = hanging.machine
    words = hanging.new
    if command == "ask":
        words = ("ask", "hello", *words[2:])
    with at_a_terminal(*PROGRAM, *words, cwd=machine.work) as person:
        person.sees("(Ctrl-C ends this)")
        agent = hanging.wait_until_it_hangs()
        person.types(CTRL_C)
        assert person.leaves() == 130
    hanging.is_over(agent)
    assert [*machine.store] == []


@requirement("R-NAMED-03")
def test_start_goes_on_for_another_command_that_waits(hanging: Hanging) -> None:
    machine = hanging.machine
    first = machine.start(*hanging.new)
    agent = hanging.wait_until_it_hangs()
    words = ("session", "prompt", "-s", "bad", "echo hello")
    with at_a_terminal(*PROGRAM, *words, cwd=machine.work) as person:
        person.sees("(Ctrl-C ends this)")
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=30)
        assert has_owner(machine.record("bad").id)
        assert hanging.is_alive(agent)
        person.types(CTRL_C)
        assert person.leaves() == 130
    hanging.is_over(agent)
    assert [*machine.store] == []


def test_watch_says_that_the_agent_is_starting(hanging: Hanging) -> None:
    machine = hanging.machine
    starter = machine.start(*hanging.new)
    hanging.wait_until_it_hangs()
    with at_a_terminal(*PROGRAM, "session", "watch", "-s", "bad", cwd=machine.work) as person:
        person.sees("to start")
        machine.ok("session", "close", "-s", "bad")
        starter.communicate(timeout=30)
        person.leaves()
