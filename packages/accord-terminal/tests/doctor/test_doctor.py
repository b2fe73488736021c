"""`accord doctor`: every agent is started and stopped in bounded time, and described."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from accord.program import main
from accord_terminal.toolkit.agent_names import settings_path
from forked import forked_programs
from needs import needs
from quirk import quirk

AGENT = Path(__file__).with_name("misbehaving.py")
Out = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("ACCORD_CONFIG", str(tmp_path))
    monkeypatch.setenv("ACCORD_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PATH", str(tmp_path))  # nothing well known is installed
    monkeypatch.setenv("COLUMNS", "80")
    with forked_programs():
        yield tmp_path


def name(folder: Path, *ways: str) -> None:
    rows = [f"[agents.{way}]\ncommand = ['{sys.executable}', '{AGENT}', '{way}']" for way in ways]
    (folder / "settings.toml").write_text("\n".join(rows))


def probed(way: str, capsys: Out, *options: str) -> tuple[int, dict[str, Any]]:
    status = main(["doctor", f"{sys.executable} {AGENT} {way}", "--json", *options])
    (found,) = json.loads(capsys.readouterr().out)["agents"]
    return status, found


def test_agent_that_works_is_described(capsys: Out) -> None:
    status, found = probed("works", capsys)
    assert status == 0
    assert found["error"] is None
    assert found["source"] == "command line"
    assert (found["title"], found["version"], found["protocol"]) == ("Gemini CLI", "0.61.0", 1)
    assert found["login"] == "not required"
    assert found["offers"] == ["load_session"]
    assert found["capabilities"]["loadSession"] is True
    assert found["initialize_s"] > 0


def test_known_quirks_are_shown_with_what_accord_does(capsys: Out) -> None:
    _, found = probed("works", capsys)
    assert [row["id"] for row in found["quirks"]] == [
        "set-model",
        "unannounced-tool-call",
        "missing-file-fatal",
    ]
    main(["doctor", f"{sys.executable} {AGENT} works"])
    out = capsys.readouterr().out
    known = "unannounced-tool-call (known of this agent): announces a tool call only in"
    assert known in " ".join(out.split())
    assert "Accord creates the tool call from that message" in out
    assert "Steering  not advertised; messages wait" in out


@quirk("noise-on-stdout")
def test_quirk_that_is_seen_is_marked(capsys: Out) -> None:
    _, found = probed("noisy", capsys)
    assert found["noise"] == ["Welcome to the agent!"]
    assert {row["id"]: row["seen"] for row in found["quirks"]} == {
        "noise-on-stdout": True,
        "set-model": False,
        "unannounced-tool-call": False,
        "missing-file-fatal": False,
    }


def test_login_that_is_required_is_no_failure(capsys: Out) -> None:
    status, found = probed("login", capsys)
    assert (status, found["login"]) == (0, "required")
    assert found["logins"][0]["id"] == "key"
    assert found["steered"] is True
    assert "\x1b" not in found["logins"][0]["name"]


@pytest.mark.parametrize(
    ("way", "error", "options"),
    [
        ("hangs", "it did not respond to `initialize` within 0.3 s", ("--timeout", "0.3")),
        ("garbage", "it did not respond to `initialize` within 0.3 s", ("--timeout", "0.3")),
        ("silent", "it did not respond to `session/new` within 3 s", ("--timeout", "3")),
        ("refuses", "it rejected `session/new`: no model", ()),
        ("dies", "exited with status 1: no key", ()),
        ("crashes", "exited with status 1: Node.js v22.1.0; Error: Cannot find module 'x'", ()),
        ("leaves", "exited with status 3", ()),
    ],
)
def test_agent_that_fails_is_reported_with_the_reason(
    way: str, error: str, options: tuple[str, ...], capsys: Out
) -> None:
    status, found = probed(way, capsys, *options)
    assert status == 1
    assert error in found["error"]
    assert "\x1b" not in json.dumps(found, ensure_ascii=False)
    assert len(found["noise"]) <= 5


def test_program_that_is_missing_is_named(capsys: Out) -> None:
    assert main(["doctor", "gemini"]) == 1
    out = capsys.readouterr().out
    assert "Cannot start gemini: not found in PATH" in " ".join(out.split())
    assert "Install it, or set its absolute path" in out


@needs("accord_coder")
def test_overview_has_all_agents_and_fits_80_columns(folder: Path, capsys: Out) -> None:
    name(folder, "works", "login", "dies")
    with settings_path().open("a") as file:
        file.write("\n[agents.gone]\ncommand = 'gone'")
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    lines = [line for line in out.splitlines() if line[:1] in ("✓", "✗")]
    assert [line.split()[:2] for line in lines] == [
        ["✓", "accord"],
        ["✓", "login"],
        ["✓", "script"],
        ["✓", "works"],
        ["✗", "dies"],
        ["✗", "gone"],
    ]
    assert "✗ gone    Cannot start gone: not found in PATH\n" in out
    assert "quirks: set-model, unannounced-tool-call" in out
    assert "Not installed: auggie, claude" in out


@needs("accord_coder")
def test_all_agents_that_work_give_status_0(folder: Path, capsys: Out) -> None:
    name(folder, "works", "login")
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {found["name"] for found in report["agents"]} == {"accord", "script", "works", "login"}
    assert "gemini" in report["not_installed"]
    assert report["machine"]["programs"]["node"] is None
    extras = report["machine"]["extras"]
    assert set(extras) == {"coder", "fleet", "inspector", "mcp", "remote", "tui"}


def test_programs_are_shown_with_their_versions_and_a_missing_settings_file(
    folder: Path, capsys: Out
) -> None:
    for program, text in (("node", "v22.1.0"), ("git", "git version 2.43.0 (x)")):
        (folder / program).write_text(f"#!/bin/sh\necho '{text}'\n")
        (folder / program).chmod(0o755)
    main(["doctor"])
    out = capsys.readouterr().out
    assert "node 22.1.0, npm not found, uv not found, git 2.43.0" in out
    assert "(does not exist: defaults apply)" in " ".join(out.split())
    main(["agents"])
    assert "(does not exist: defaults apply)" in " ".join(capsys.readouterr().out.split())
    name(folder, "good")
    main(["agents"])
    assert "does not exist" not in capsys.readouterr().out


@needs("accord_coder")
def test_settings_that_cannot_be_read_do_not_stop_it(folder: Path, capsys: Out) -> None:
    settings_path().write_text("[agents")
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "✗ The settings file" in out
    assert "✓ accord" in out
