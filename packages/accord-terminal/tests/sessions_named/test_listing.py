"""What `list`, `show` and `prune` print: hundreds of sessions, odd names, narrow terminals."""

from __future__ import annotations

import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from accord_terminal.sessions.records import FAILED, Record, Store, now
from needs import needs
from sessions_named.machine import Machine

NAMES = (
    "fix",
    "a-very-long-name-that-describes-the-whole-task-to-be-done-today",
    "日本語の名前",
    "party 🎉",
    "quote\"'`$x",
    "x" * 64,
    None,
)
FOLDER = "/home/ann/projects/some/deeply/nested/folder/with/the-name-that-matters"


def store_many(machine: Machine, count: int) -> None:
    store = machine.store
    for number in range(count):
        record = Record(
            id=Store.new_id(),
            name=NAMES[number % len(NAMES)],
            cwd=FOLDER,
            agent="npx -y @some/agent-package-with-a-long-name --acp",
            argv=(f"agent-{number}",),
            created_at=now(),
            used_at=now(),
            closed=number % 4 == 3,
        )
        store.write(record)


def test_list_of_hundreds_fits_into_the_terminal(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_many(machine, 120)
    for columns, every in product((60, 80, 200), (False, True)):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = machine.ok("session", "list", *(["--all"] if every else [])).splitlines()
        assert len(lines) == (121 if every else 91)
        assert max(map(cell_len, lines)) <= columns
        assert all(line.endswith("matters") for line in lines[1:])
        starts = {
            cell_len(line[: line.index(" stopped " if " stopped " in line else " closed ")])
            for line in lines[1:]
        }
        assert len(starts) == 1, "the columns are aligned"
        if columns == 200:
            assert "nested/folder/with" in lines[1]


def test_list_is_not_cut_in_a_pipe(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    store_many(machine, 7)
    monkeypatch.delenv("COLUMNS", raising=False)
    listed = machine.ok("session", "list")
    assert all(f"{name or '-'} " in listed for name in NAMES if name != NAMES[3])
    assert listed.count(FOLDER) == 6


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two users")
def test_folder_of_another_user_is_refused(machine: Machine) -> None:
    folder = machine.store.folder
    os.chown(folder, 65534, 65534)
    ended = machine.run("session", "list")
    assert ended.returncode == FAILED
    assert f"the folder {folder} belongs to another user" in ended.stderr


@pytest.mark.slow
@needs("accord_coder")
def test_every_command_prints_json(machine: Machine, tmp_path: Path) -> None:
    def found(*words: str) -> Any:
        return json.loads(machine.ok("session", *words, "--json"))

    created = found("new", "-s", "fix", "--agent", "accord")
    record_id = created["id"]
    assert (created["name"], created["created"]) == ("fix", True)
    assert found("ensure", "-s", "fix")["created"] is False
    assert found("list")[0]["id"] == record_id
    assert found("show", "-s", "fix")["id"] == record_id
    events = machine.ok("session", "prompt", "-s", "fix", "--json", "help").splitlines()
    assert json.loads(events[-1])["event"] == "end"
    assert set(found("prompt", "-s", "fix", "--no-wait", "help")) == {"promptId", "sessionId"}
    watched = machine.ok("session", "watch", "-s", "fix", "--json", "--no-follow", "--from-start")
    assert json.loads(watched.splitlines()[0])["entry"]["kind"] == "owner_started"
    history = machine.ok("session", "history", "-s", "fix", "--json")
    assert "cursor" in json.loads(history.splitlines()[0])
    machine.ok("session", "prompt", "-s", "fix", "help")  # after the one that was queued
    assert found("cancel", "-s", "fix") == {"cancelled": None}
    forked = found("fork", "-s", "fix", "other")
    assert (forked["name"], forked["forkedFrom"]) == ("other", record_id)
    machine.ok("session", "export", "-s", "fix", "-o", str(tmp_path / "fix.json"))
    imported = found("import", str(tmp_path / "fix.json"), "-s", "copy")
    assert [row["name"] for row in imported["imported"]] == ["copy"]
    assert found("import", str(tmp_path / "fix.json"))["skipped"] == 1
    assert found("close", "-s", "fix") == {"closed": {"id": record_id, "name": "fix"}}
    pruned = {"dryRun": True, "deleted": [{"id": record_id, "name": "fix"}]}
    assert found("prune", "--dry-run") == pruned
    assert found("prune") == pruned | {"dryRun": False}


@pytest.mark.slow
def test_set_prints_json(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    printed = machine.ok("session", "set", "-s", "fix", "mode", "auto", "--json")
    assert json.loads(printed) == {"option": "mode", "value": "auto"}
    machine.ok("session", "set", "-s", "fix", "--by-id", "mode", "ask")
    refused = machine.run("session", "set", "-s", "fix", "--by-id", "nope", "large")
    assert "got 'nope'" in refused.stderr
