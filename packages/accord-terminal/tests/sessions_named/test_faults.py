"""Faults of the machine: a full disk, clients that leave at any moment, wall clocks that jump."""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
from pathlib import Path

import pytest
from msgspec import Raw

from accord_terminal.sessions import open_session
from accord_terminal.sessions.journal import Journal, JournalReader, Queued
from accord_terminal.sessions.records import JournalError, StoreError, socket_path, state_folder
from requirement import requirement
from sessions_named.machine import Machine, eventually

pytestmark = pytest.mark.slow


def queued(text: str) -> Queued:
    return Queued(prompt="p-1", content=Raw(b"[]"), text=text, by="test")


@requirement("R-NAMED-05")
@pytest.mark.parametrize("protocol", ["1", "2"])
def test_full_disk_ends_the_turn_and_shows_nothing_that_is_not_stored(
    machine: Machine, protocol: str
) -> None:
    limit = 20_000  # bytes of a file: the kernel refuses to write more, as on a full disk
    machine.ok("session", "new", "-s", "fix", "--agent", "script", "--protocol", protocol)
    owner = machine.owner()
    journal = machine.store.journal_path(machine.record().id)
    resource.prlimit(owner, resource.RLIMIT_FSIZE, (limit, limit))
    ended = machine.run("session", "prompt", "-s", "fix", "--quiet", "stream 1000 word ")
    assert ended.returncode == 1
    assert f"Cannot write the journal {journal}" in ended.stderr
    assert journal.stat().st_size <= limit
    assert journal.read_bytes().endswith(b"\n")
    eventually(lambda: machine.owners() == [])
    assert machine.ok("session", "prompt", "-s", "fix", "echo on") == "on\n"


def test_journal_without_space_keeps_what_it_has(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = machine.base / "j.jsonl"
    journal = Journal(path)
    journal.append(queued("one"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, before[1]))
        with pytest.raises(JournalError, match="Cannot write the journal"):
            journal.append(queued("two"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    journal.append(queued("three"))
    journal.close()
    texts = [getattr(entry, "text", "") for entry in JournalReader(path).new_entries()]
    assert texts == ["one", "three"]


def test_collected_entries_are_written_in_order_as_far_as_there_is_space(machine: Machine) -> None:
    path = machine.base / "j.jsonl"
    journal = Journal(path)
    journal.append(queued("one"))
    size = path.stat().st_size
    for text in ("two", "tri"):
        journal.collect(queued(text))
    assert (journal.last, journal.next, path.stat().st_size) == (1, 4, size)
    journal.append(queued("for"))
    assert [entry.seq for entry in journal.after(0, 10)] == [1, 2, 3, 4]
    for text in ("fiv", "six"):
        journal.collect(queued(text))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5 * size + 10, before[1]))
        with pytest.raises(JournalError, match="Cannot write the journal"):
            journal.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert (journal.last, journal.next) == (5, 6)
    journal.append(queued("sev"))
    journal.close()
    texts = [getattr(entry, "text", "") for entry in JournalReader(path).new_entries()]
    assert texts == ["one", "two", "tri", "for", "fiv", "sev"]


def test_unfinished_line_is_not_read_and_is_removed(machine: Machine) -> None:
    path = machine.base / "j.jsonl"
    journal = Journal(path)
    journal.append(queued("one"))
    journal.close()
    whole = path.stat().st_size
    with path.open("ab") as file:
        file.write(b'{"kind":"queued","con')
    assert len([*JournalReader(path).new_entries()]) == 1
    again = Journal(path)
    assert path.stat().st_size == whole
    assert again.append(queued("two")).seq == 2
    again.close()


def test_client_that_leaves_before_it_is_accepted_does_not_matter(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    owner = machine.owner()
    os.kill(owner, signal.SIGSTOP)
    for _ in range(5):
        with socket.socket(socket.AF_UNIX) as gone:
            gone.connect(os.fspath(socket_path(machine.record().id)))
    os.kill(owner, signal.SIGCONT)
    assert machine.ok("session", "prompt", "-s", "fix", "echo on") == "on\n"
    assert machine.owner() == owner


async def test_client_that_does_not_read_delays_no_other(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    async with open_session("fix"):  # which reads nothing while `run` blocks this process
        ended = machine.run("session", "prompt", "-s", "fix", "--quiet", "stream 8000 word ")
        assert ended.returncode == 0


def test_no_wait_compares_wall_clocks() -> None:
    folder = Path(sys.modules["accord_terminal.sessions"].__file__ or "").parent
    uses = [
        path.name
        for path in folder.rglob("*.py")
        if "time.time(" in path.read_text() or "datetime.now" in path.read_text()
    ]
    assert sorted(uses) == ["control.py", "records.py"]  # dates for people


def test_other_systems_get_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(StoreError, match="Windows"):
        state_folder()


def test_half_of_a_surrogate_pair_does_not_lose_other_entries(machine: Machine) -> None:
    path = machine.base / "j.jsonl"
    journal = Journal(path)
    journal.collect(queued("one"))
    journal.append(queued("two \ud83d"))
    journal.close()
    texts = [getattr(entry, "text", "") for entry in JournalReader(path).new_entries()]
    assert texts == ["one", "two \ufffd"]
