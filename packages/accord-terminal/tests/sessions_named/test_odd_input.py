"""Wrong input, odd names, files that cannot be written: one line says what to do."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import stat
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from accord.program import main
from accord_terminal.sessions.cli.transfer import Archive
from accord_terminal.sessions.records import Record, Store, now
from needs import needs
from sessions_named.machine import PROGRAM, Machine, eventually

pytestmark = pytest.mark.slow

ACPX = Path(__file__).parent / "data" / "acpx"


def record(machine: Machine, **more: Any) -> Record:
    found = Record(
        id=Store.new_id(),
        name="fix",
        cwd=str(machine.work),
        agent="script",
        argv=("accord", "agent", "script"),
        created_at=now(),
        used_at=now(),
    )
    return replace(found, **more)


def export_of(machine: Machine, stored: Record) -> str:
    path = machine.base / "export.json"
    path.write_bytes(msgspec.json.encode(Archive(record=stored, entries=[])))
    return str(path)


def test_prune_refuses_what_is_not_a_number_of_days(machine: Machine) -> None:
    for days in ("nan", "inf", "1e12"):
        ended = machine.run("session", "prune", "--older-than", days)
        assert ended.returncode == 2
        said = "Error: --older-than or --before is not a day of the calendar\n"
        assert ended.stderr.endswith(said)


def test_prune_applies_both_limits(machine: Machine) -> None:
    machine.store.write(record(machine, closed=True))
    said = machine.ok("session", "prune", "--older-than", "0", "--before", "2020-01-01")
    assert said == "deleted 0 sessions\n"
    assert machine.ok("session", "prune", "--older-than", "0") == "deleted 1 session\n"


def test_prune_reports_what_it_cannot_delete_and_goes_on(machine: Machine) -> None:
    stuck, free = record(machine, closed=True), record(machine, closed=True)
    for each in (stuck, free):
        machine.store.write(each)
    machine.store.log_path(stuck.id).mkdir()  # what is not a file cannot be unlinked
    ended = machine.run("session", "prune")
    assert ended.returncode == 1
    assert ended.stdout == "deleted 1 session\n"
    assert ended.stderr.startswith("accord session prune: Cannot delete ")
    assert not machine.store.record_path(free.id).exists()


def test_import_reports_a_damaged_record_and_stores_the_others(machine: Machine) -> None:
    folder = machine.base / ".acpx" / "sessions"
    shutil.copytree(ACPX, folder)
    (folder / "a-damaged.json").write_text("{damaged")
    ended = machine.run("session", "import", str(folder), "--cwd", str(machine.work))
    assert ended.returncode == 1
    assert ended.stdout.startswith("imported small (s-")
    assert ended.stdout.endswith("agent accord agent script\n")
    assert ended.stderr.startswith("accord session import: Cannot read ")
    assert machine.texts("small")


def test_import_reports_a_record_that_cannot_be_written_and_stores_the_others(
    machine: Machine,
) -> None:
    folder = machine.base / "sessions"
    shutil.copytree(ACPX, folder)
    (stored,) = folder.glob("*.json")
    closed = {**json.loads(stored.read_text()), "acpx_record_id": "other", "closed": True}
    (folder / "other.json").write_text(json.dumps(closed))
    (machine.store.folder / "records.lock").mkdir()  # which is needed only for an open session
    ended = machine.run("session", "import", str(folder), "--json")
    assert ended.returncode == 1
    assert ended.stderr.startswith("accord session import: Cannot open the lock ")
    said = json.loads(ended.stdout)
    assert [row["state"] for row in said["imported"]] == ["closed"]
    assert said["skipped"] == 0
    journals = [path.stem for path in machine.store.folder.glob("*.jsonl")]
    assert journals == [row["id"] for row in said["imported"]]


def test_two_imports_at_once_store_a_session_once(machine: Machine) -> None:
    both = [machine.start("session", "import", str(ACPX)) for _ in range(2)]
    said = sorted(process.communicate(timeout=50)[0].split()[0] for process in both)
    assert said == ["imported", "skipped"]
    assert len([*machine.store]) == 1


def test_import_whose_output_is_not_read_does_not_stop_another(machine: Machine) -> None:
    reader, writer = full_pipe()
    words = [*PROGRAM, "session", "import", str(ACPX)]
    machine.started.append(subprocess.Popen(words, stdout=writer, text=True, cwd=machine.work))
    os.close(writer)
    with os.fdopen(reader, "rb") as output:
        eventually(lambda: [*machine.store])
        assert machine.ok("session", "import", str(ACPX)).startswith("skipped small")
        assert output.read().lstrip(b".").startswith(b"imported small")


def full_pipe() -> tuple[int, int]:
    """Return a full pipe: a write to it waits for a reader."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for size in (4096, 1):
        with suppress(BlockingIOError):
            while True:
                os.write(writer, b"." * size)
    os.set_blocking(writer, True)
    return reader, writer


def test_import_refuses_a_name_that_could_not_be_typed(machine: Machine) -> None:
    for name in ("-x", "two\nlines", "\x1b[31mred", "", "x" * 65):
        ended = machine.run("session", "import", export_of(machine, record(machine)), "-s", name)
        assert ended.returncode == 2, name
        assert "Expected a name of at most 64 visible characters" in ended.stderr, name
    assert [*machine.store] == []


def test_imported_names_cannot_change_the_terminal(machine: Machine) -> None:
    odd = record(machine, name="\x1b]0;title\x07red\nfake", cwd="/tmp/\x1b[31m", argv=("\x9b1m",))
    said = machine.ok("session", "import", export_of(machine, odd))
    assert said.count("\n") == 1
    assert all(character.isprintable() for character in said.rstrip("\n"))


def test_export_has_no_environment_and_import_takes_that_of_the_settings(machine: Machine) -> None:
    (machine.base / "config" / "settings.toml").write_text(
        '[agents.own]\ncommand = ["accord", "agent", "script"]\nenv = { KEY = "secret" }\n'
    )
    stored = record(machine, agent="own", env={"KEY": "secret"})
    machine.store.write(stored)
    text = machine.ok("session", "export", "-s", "fix", "--format", "json")
    assert "secret" not in text
    machine.store.delete(stored.id)
    (machine.base / "export.json").write_text(text)
    machine.ok("session", "import", str(machine.base / "export.json"))
    assert machine.record().env == {"KEY": "secret"}


def test_exported_file_is_only_for_the_user_also_if_it_existed(machine: Machine) -> None:
    machine.store.write(record(machine))
    path = machine.work / "fix.md"
    path.touch(0o644)
    machine.ok("session", "export", "-s", "fix", "-o", str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_export_into_a_file_of_another_user_warns_and_writes_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_fd: int, _mode: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    machine.store.write(record(machine))
    path = machine.work / "fix.md"
    path.write_text("earlier " * 1000)
    monkeypatch.setattr(os, "fchmod", refuse)
    assert main(["session", "export", "-s", "fix", "-o", str(path)]) == 0
    said = f"accord session export: {path} belongs to another user: others may be able to read it\n"
    assert capsys.readouterr() == ("", said)
    text = path.read_text()
    assert text.startswith("# fix\n")
    assert "earlier" not in text


@needs("accord_coder")
def test_fork_of_a_closed_session_is_open(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "accord")
    machine.ok("session", "prompt", "-s", "fix", "help")
    machine.ok("session", "close", "-s", "fix")
    machine.ok("session", "fork", "-s", machine.record().id, "copy")
    assert not machine.record("copy").closed
    machine.ok("session", "prompt", "-s", "copy", "help")


def test_fork_of_a_damaged_journal_leaves_nothing(machine: Machine) -> None:
    stored = record(machine, agent_session="one")
    machine.store.write(stored)
    machine.store.journal_path(stored.id).write_text("damaged\n")
    ended = machine.run("session", "fork", "-s", "fix", "copy")
    assert ended.returncode == 1
    assert "cannot read line 1" in ended.stderr
    journals = [path.stem for path in machine.store.folder.glob("*.jsonl")]
    assert journals == [stored.id]


def test_sessions_of_agents_with_one_name_are_named_by_their_ids(machine: Machine) -> None:
    one, other = record(machine), record(machine, argv=("/old/accord", "agent", "script"))
    for each in (one, other):
        machine.store.write(each)
    ended = machine.run("session", "show", "-s", "fix")
    assert ended.returncode == 2
    assert f"-s {one.id} (script) or {other.id} (script)" in ended.stderr or (
        f"-s {other.id} (script) or {one.id} (script)" in ended.stderr
    )


def test_close_says_why_the_record_cannot_be_written(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    lock = machine.store.folder / "records.lock"
    lock.unlink()
    lock.mkdir()
    ended = machine.run("session", "close", "-s", "fix")
    assert ended.returncode == 1
    assert "cannot open the lock" in ended.stderr
    lock.rmdir()
    assert machine.ok("session", "close", "-s", "fix") == "closed the session fix\n"


def test_owner_that_cannot_write_its_log_is_not_started(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    with suppress(ProcessLookupError):
        os.kill(machine.owner(), signal.SIGKILL)
    eventually(lambda: machine.owners() == [])
    log = machine.store.log_path(machine.record().id)
    log.unlink()
    log.mkdir()
    ended = machine.run("session", "prompt", "-s", "fix", "echo Hello.")
    assert ended.returncode == 1
    assert ended.stderr.endswith(f"annot write {log}: Is a directory\n")
