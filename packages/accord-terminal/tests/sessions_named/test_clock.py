"""A laptop that sleeps: processes that stop, and wall clocks that jump in both directions."""

from __future__ import annotations

import os
import signal
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from accord_terminal.sessions.records import socket_path
from requirement import requirement
from sessions_named.machine import Machine, eventually
from sessions_named.moved_clock import MovedClock

# The first test imports in this process what the others fork.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture
def clock(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> MovedClock:
    """Return the wall clock of the programs of this test."""
    return MovedClock(machine.base / "clock", monkeypatch)


@requirement("R-NAMED-04")
def test_jump_of_the_clock_changes_neither_the_owner_nor_the_queue(
    machine: Machine, clock: MovedClock
) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")  # ends after 300 s
    owners = [machine.owner()]
    for times, days in enumerate((-400, 400), 1):
        machine.ok("session", "prompt", "-s", "fix", "--no-wait", "wait forever")
        machine.ok("session", "prompt", "-s", "fix", "--no-wait", "echo first")
        clock.jump(days)
        machine.ok("session", "prompt", "-s", "fix", "--no-wait", "echo second")
        machine.ok("session", "cancel", "-s", "fix")
        assert machine.ok("session", "prompt", "-s", "fix", "echo third") == "third\n"
        assert machine.texts() == ["first", "second", "third"] * times
        assert machine.owners() == owners
        moved = datetime.fromisoformat(machine.entries()[-1].at) - datetime.now(UTC)
        assert abs(moved.days - days) < 3, "the clock of the owner has jumped"


def test_jump_of_the_clock_does_not_keep_an_unused_owner(
    machine: Machine, clock: MovedClock
) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script", "--ttl", "1")
    for days in (-400, 400):
        clock.jump(days)
        eventually(lambda: machine.owners() == [])
        assert "not used for 1 s" in (machine.record().last_exit or "")
        assert machine.ok("session", "prompt", "-s", "fix", "echo on") == "on\n"


def test_prune_with_a_limit_keeps_what_was_used_in_the_future(
    machine: Machine, clock: MovedClock
) -> None:
    clock.jump(30)
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    machine.ok("session", "close", "-s", "fix")
    clock.jump(0)
    assert "deleted 0" in machine.ok("session", "prune", "--older-than", "0")
    clock.jump(31)
    assert "deleted 0" in machine.ok("session", "prune", "--older-than", "2")
    assert "deleted 1" in machine.ok("session", "prune", "--older-than", "0.5")


def test_newer_session_of_a_name_is_used_although_its_time_is_earlier(
    machine: Machine, clock: MovedClock
) -> None:
    clock.jump(30)
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    clock.jump(0)
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    assert [record.closed for record in machine.store] == [False, True]
    assert machine.ok("session", "prompt", "-s", "fix", "echo on") == "on\n"


def test_client_of_an_owner_that_slept_longer_than_its_time_gets_an_answer(
    machine: Machine,
) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script", "--ttl", "1")
    owner = machine.owner()
    os.kill(owner, signal.SIGSTOP)
    stopped = time.monotonic()
    call = machine.start("session", "prompt", "-s", "fix", "echo awake")
    path = os.fspath(socket_path(machine.record().id))
    sockets = Path("/proc/net/unix")  # one that listens, and one that waits to be accepted
    eventually(lambda: sockets.read_text().count(path) == 2)
    eventually(lambda: time.monotonic() > stopped + 1.5)
    os.kill(owner, signal.SIGCONT)  # its time is over, and a client waits
    output, errors = call.communicate(timeout=40)
    assert (call.returncode, output) == (0, "awake\n"), errors


def test_owner_and_client_that_sleep_in_a_turn_continue(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    owner = machine.owner()
    call = machine.start("session", "prompt", "-s", "fix", "stream 10000 word")
    machine.wait_started("stream 10000 word")
    for pid in (owner, call.pid):
        os.kill(pid, signal.SIGSTOP)
    for pid in (call.pid, owner):
        os.kill(pid, signal.SIGCONT)
    output, errors = call.communicate(timeout=40)
    assert (call.returncode, output.split()) == (0, ["word"] * 10000), errors
