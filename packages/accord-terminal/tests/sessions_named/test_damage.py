"""Damaged records and journals: a clear error, nothing is lost, other sessions can be used."""

from __future__ import annotations

import json
import os
import signal

import pytest

from accord_terminal.sessions.records import FAILED, NO_SESSION, is_locked, socket_path
from sessions_named.machine import OWNER, Machine, eventually

pytestmark = pytest.mark.slow


def test_damaged_record_is_reported_and_stays(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "good", "--agent", "script")
    machine.ok("session", "new", "-s", "bad", "--agent", "script")
    record_id = machine.record("bad").id
    stop(machine, record_id)
    path = machine.store.record_path(record_id)
    for damaged in (b"", b"{", b"\0" * 300, b"\xff\xfe", b"[]", b'{"id": "s-1"}'):
        path.write_bytes(damaged)
        listed = machine.run("session", "list")
        assert listed.returncode == 0, damaged
        assert f"Cannot read the record {path}" in listed.stderr, damaged
        assert "good" in listed.stdout, damaged
        by_name = machine.run("session", "prompt", "-s", "bad", "echo x")
        assert by_name.returncode == NO_SESSION, damaged
        assert "1 record cannot be read" in by_name.stderr, damaged
        by_id = machine.run("session", "show", "-s", record_id)
        assert by_id.returncode == FAILED, damaged
        assert f"cannot read the record {path}" in by_id.stderr, damaged
        assert machine.ok("session", "prompt", "-s", "good", "echo on") == "on\n"
        assert "deleted 0" in machine.ok("session", "prune")
        assert path.read_bytes() == damaged


def test_record_of_a_newer_version_is_left_as_it_is(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    record_id = machine.record("fix").id
    stop(machine, record_id)
    path = machine.store.record_path(record_id)
    fields = json.loads(path.read_bytes())
    newer = json.dumps({**fields, "schema": "accord.session.v2", "more": 1}).encode()
    path.write_bytes(newer)
    by_id = machine.run("session", "prompt", "-s", record_id, "echo x")
    assert by_id.returncode == FAILED
    assert "expected the format accord.session.v1, got accord.session.v2" in by_id.stderr
    assert machine.run("session", "prompt", "-s", "fix", "echo x").returncode == NO_SESSION
    assert "deleted 0" in machine.ok("session", "prune")
    assert path.read_bytes() == newer


def test_damaged_line_of_a_journal_is_named_and_can_be_removed(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "good", "--agent", "script")
    machine.ok("session", "new", "-s", "bad", "--agent", "script")
    machine.ok("session", "prompt", "-s", "bad", "echo one")
    record_id = machine.record("bad").id
    stop(machine, record_id)
    path = machine.store.journal_path(record_id)
    lines = path.read_bytes().split(b"\n")
    for damaged in (b"", b'{"kind":"upd', b"\0" * 30, b'{"kind":"\xff"}', b'{"kind":"new"}'):
        found = b"\n".join((*lines[:2], damaged, *lines[2:]))
        path.write_bytes(found)
        for words in (
            ("prompt", "-s", "bad", "echo x"),
            ("history", "-s", "bad"),
            ("watch", "-s", "bad", "--from-start", "--no-follow"),
            ("export", "-s", "bad"),
        ):
            ended = machine.run("session", *words)
            assert ended.returncode == FAILED, (words, damaged)
            assert f"annot read line 3 of {path}" in ended.stderr, (words, damaged)
        assert path.read_bytes() == found
    assert machine.ok("session", "prompt", "-s", "good", "echo on") == "on\n"
    path.write_bytes(b"\n".join(lines))
    assert machine.ok("session", "prompt", "-s", "bad", "echo two") == "two\n"
    assert "".join(machine.texts("bad")) == "onetwo"  # the agent has numbered both as the first
    sequence = [entry.seq for entry in machine.entries("bad")]
    assert sequence == [*range(1, len(sequence) + 1)]


def stop(machine: Machine, record_id: str) -> None:
    """Kill the owner of a session."""
    lock = socket_path(record_id).with_suffix(".lock")
    for pid, words in machine.programs().items():
        if words[-2:] == [OWNER, record_id]:
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: not is_locked(lock))
