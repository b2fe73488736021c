"""Import of what acpx has stored, export in three formats, forks, and pruning."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from accord_terminal.sessions.cli.transfer import exported
from accord_terminal.sessions.records import Record
from needs import needs
from requirement import requirement
from sessions_named.machine import Machine

pytestmark = pytest.mark.slow

ACPX = Path(__file__).parent / "data" / "acpx"  # a store that acpx 0.19.1 has written


@requirement("R-NAMED-07")
def test_session_of_acpx_is_imported_with_its_turns(machine: Machine) -> None:
    store = machine.base / ".acpx"
    shutil.copytree(ACPX, store / "sessions")
    said = machine.ok("session", "import", str(store), "--cwd", str(machine.work))
    assert "imported small (s-" in said
    record = machine.record("small")
    assert record.argv == ("accord", "agent", "script")
    assert record.agent_session == "session-83f2f2f3566c7959b63312e9"
    history = machine.ok("session", "history", "-s", "small")
    assert "> echo Hello from acpx\nHello from acpx\n" in history
    assert "The plan is done." in history
    assert "skipped small" in machine.ok("session", "import", str(store))


@requirement("R-NAMED-07")
def test_record_of_acpx_without_its_stream_keeps_the_texts(machine: Machine) -> None:
    (record,) = ACPX.glob("*.json")
    shutil.copy(record, machine.base / "record.json")
    machine.ok("session", "import", str(machine.base / "record.json"), "--cwd", str(machine.work))
    assert machine.texts("small") == ["Hello from acpx", "The plan is done."]


@requirement("R-NAMED-07")
def test_archive_of_acpx_is_imported(machine: Machine) -> None:
    (record,) = ACPX.glob("*.json")
    (stream,) = ACPX.glob("*.ndjson")
    frames = [json.loads(line) for line in stream.read_text().splitlines()]
    archive = {
        "format_version": 1,
        "exported_by": "acpx",
        "session": {"name": "small", "state": json.loads(record.read_text())},
        "history": [frame for frame in frames if "jsonrpc" in frame],
    }
    path = machine.base / "archive.json"
    path.write_text(json.dumps(archive))
    machine.ok("session", "import", str(path), "-s", "other", "--cwd", str(machine.work))
    assert "Hello from acpx" in machine.ok("session", "history", "-s", "other")


def test_folder_without_sessions_is_an_error(machine: Machine) -> None:
    ended = machine.run("session", "import", str(machine.work))
    assert ended.returncode == 1
    assert "Expected records of acpx" in ended.stderr


@requirement("R-NAMED-01")
def test_export_in_three_formats(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script", "--protocol", "1")
    machine.ok("session", "prompt", "-s", "fix", "echo <b>Hello</b>")
    machine.ok("session", "prompt", "-s", "fix", "--yes", "permission")
    markdown = machine.ok("session", "export", "-s", "fix")
    assert markdown.startswith("# fix\n")
    assert "\n## echo \\<b\\>Hello\\</b\\>\n" in markdown
    assert "- permission: Do thing 1: allow, by a rule of the session\n" in markdown
    page = machine.work / "fix.html"
    machine.ok("session", "export", "-s", "fix", "-o", str(page))
    assert "<p>&lt;b&gt;Hello&lt;/b&gt;</p>" in page.read_text()
    assert "<b>" not in page.read_text()
    assert stat.S_IMODE(page.stat().st_mode) == 0o600


def test_own_export_is_imported_again(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    machine.ok("session", "prompt", "-s", "fix", "echo Hello")
    path = machine.work / "fix.json"
    machine.ok("session", "export", "-s", "fix", "-o", str(path))
    machine.ok("session", "import", str(path), "-s", "copy")
    assert machine.texts("copy") == ["Hello"]
    assert machine.ok("session", "prompt", "-s", "copy", "echo on") == "on\n"


def test_damaged_import_stores_nothing(machine: Machine) -> None:
    path = machine.base / "bad.json"
    for text in (
        '{"schema":"accord.session.export.v1","record":1}',
        *("{", '{"schema":"acpx.session.v1"}', "[]"),
    ):
        path.write_text(text)
        ended = machine.run("session", "import", str(path))
        assert ended.returncode == 1, text
        assert "Traceback" not in ended.stderr, text
    assert [*machine.store] == []


def test_fork_of_an_agent_without_a_store_is_refused(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    machine.ok("session", "prompt", "-s", "fix", "echo Hello")
    refused = machine.run("session", "fork", "-s", "fix", "copy")
    assert refused.returncode == 1  # the sessions of this agent do not outlive its process
    assert [record.name for record in machine.store] == ["fix"]


@needs("accord_coder")
def test_fork_of_an_agent_that_stores_its_sessions(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "accord")
    machine.ok("session", "prompt", "-s", "fix", "help")
    machine.ok("session", "fork", "-s", "fix", "copy")
    copy = machine.record("copy")
    assert copy.restored == "forked"
    assert copy.agent_session not in (None, machine.record("fix").agent_session)
    machine.ok("session", "prompt", "-s", "copy", "help")
    counts = {row["name"]: row["prompts"] for row in _rows(machine)}
    assert counts == {"fix": 1, "copy": 2}


def _rows(machine: Machine) -> list[dict[str, Any]]:
    return json.loads(machine.ok("session", "list", "--json"))


def test_prune_deletes_closed_sessions(machine: Machine) -> None:
    for name in ("one", "two"):
        machine.ok("session", "new", "-s", name, "--agent", "script")
    machine.ok("session", "close", "-s", "one")
    assert "would delete 1 session\n" in machine.ok("session", "prune", "--dry-run")
    assert machine.ok("session", "prune", "--older-than", "1") == "deleted 0 sessions\n"
    assert machine.ok("session", "prune") == "deleted 1 session\n"
    assert [record.name for record in machine.store] == ["two"]


@pytest.mark.parametrize("form", ["markdown", "html", "json"])
def test_export_has_no_secret_of_the_agent(form: str) -> None:
    secret = "abcd-efgh-ijkl-mnop"
    record = Record(
        id="1",
        cwd="/work",
        agent=f"agent --api-key {secret} --url https://ada:{secret}@host/x",
        argv=("agent", "--api-key", secret, f"--token={secret}"),
        env={"KEY": secret},
        meta={"example": {"apiKey": secret}},
        last_exit=f"exit status 1: invalid --api-key={secret}",
        created_at="2026-01-01T00:00:00Z",
        used_at="2026-01-01T00:00:00Z",
    )
    text = exported(record, [], form).decode()
    assert secret not in text
    assert "redacted" in text
