"""A session that is opened again has the mode and the options that it had before."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

from requirement import requirement
from sessions_named.machine import Machine, eventually

pytestmark = pytest.mark.slow

AGENT = Path(__file__).with_name("default_mode_agent.py")
VERSIONS = pytest.mark.parametrize("version", ["1", "2"])


def command(*words: str) -> str:
    return shlex.join([sys.executable, str(AGENT), *words])


def restart(machine: Machine, number: signal.Signals) -> None:
    os.kill(machine.owner(), number)
    eventually(lambda: machine.owners() == [])


@VERSIONS
@requirement("R-NAMED-05")
def test_mode_of_the_first_start_is_that_of_the_next(machine: Machine, version: str) -> None:
    words = ("-s", "fix", "--agent", command(version))
    machine.ok("session", "new", *words, "--mode", "read-only")
    for number in (signal.SIGTERM, signal.SIGKILL):
        assert machine.ok("session", "prompt", *words, "mode?").startswith("read-only")
        restart(machine, number)
    assert machine.ok("session", "prompt", *words, "mode?").startswith("read-only")
    assert machine.record().restored in ("loaded", "resumed")
    assert "mode=read-only" in machine.ok("session", "show", *words)


@VERSIONS
@requirement("R-NAMED-05")
def test_options_that_were_set_later_are_restored(machine: Machine, version: str) -> None:
    words = ("-s", "fix", "--agent", command(version))
    machine.ok("session", "new", *words)
    machine.ok("session", "set", *words, "mode", "read-only")
    if version == "2":
        machine.ok("session", "set", *words, "thinking", "off")
    before = machine.ok("session", "prompt", *words, "mode?")
    restart(machine, signal.SIGKILL)
    assert machine.ok("session", "prompt", *words, "mode?") == before


@VERSIONS
@requirement("R-NAMED-05")
def test_session_whose_mode_is_gone_is_not_opened_in_another(
    machine: Machine, version: str, tmp_path: Path
) -> None:
    program = tmp_path / "agent"
    program.write_text(f"#!/bin/sh\nexec {command(version)}\n")
    program.chmod(0o700)
    words = ("-s", "fix", "--agent", str(program))
    machine.ok("session", "new", *words, "--mode", "read-only")
    restart(machine, signal.SIGTERM)
    program.write_text(f"#!/bin/sh\nexec {command(version, 'write', 'plan')}\n")
    ended = machine.run("session", "prompt", *words, "mode?")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "no longer has 'read-only'; it is Write" in ended.stderr
    assert "accord session new" in ended.stderr

    program.write_text(f"#!/bin/sh\nexec {command(version, '-')}\n")  # silent about modes
    ended = machine.run("session", "prompt", *words, "mode?")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "mode: the agent has no such option now" in ended.stderr

    program.write_text(f"#!/bin/sh\nexec {command(version)}\n")  # the mode is still known
    assert machine.ok("session", "prompt", *words, "mode?").startswith("read-only")
