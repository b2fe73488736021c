"""`accord install`: what is written, printed and removed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from accord.program import main
from needs import needs
from requirement import requirement

ZED = '// mine\n{\n  "theme": "One Dark",\n}\n'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ACCORD_CONFIG", str(tmp_path / "accord"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path


@pytest.fixture
def zed(home: Path) -> Path:
    path = home / ".config" / "zed" / "settings.json"
    path.parent.mkdir(parents=True)
    path.write_text(ZED)
    return path


@requirement("R-EDIT-01")
def test_zed_gets_an_agent_and_loses_it_again(
    zed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install", "zed"]) == 0
    text = zed.read_text()
    assert text.startswith('// mine\n{\n  "theme": "One Dark",\n  "agent_servers": {\n')
    assert '"type": "custom"' in text
    out = capsys.readouterr().out
    assert f"Added accord in {zed}" in out
    assert "choose accord" in out
    assert main(["install", "zed"]) == 0
    assert f"Nothing to do: accord is in {zed}" in capsys.readouterr().out
    assert main(["install", "zed", "--remove"]) == 0
    assert zed.read_text() == ZED
    assert main(["install", "zed", "--remove"]) == 0
    assert "Nothing to do: accord is not in" in capsys.readouterr().out


JETBRAINS = """\
{
  "default_mcp_settings": { "use_idea_mcp": true, "use_custom_mcp": false },
  "agent_servers": {
    "Team agent": {
      "command": "/opt/team/agent",
      "args": ["--acp", "--profile=it"],
      "env": { "TEAM": "blue" },
      "use_idea_mcp": true
    }
  }
}
"""
VSCODE = """\
// Place your settings in this file to overwrite the default settings
{
\t"editor.fontSize": 13,
\t"[python]": {
\t\t"editor.defaultFormatter": "charliermarsh.ruff", // keep
\t},
\t/* agents */
\t"acp.agents": {
\t\t"Gemini": { "command": "gemini", "args": ["--acp"], "env": {} },
\t\t// "Old": { "command": "old" }
\t},
\t"acp.autoApprovePermissions": "ask",
\t"files.exclude": { "**/.git": true, },
}
"""
ZED_SERVERS = """\
{
  "agent_servers": {
    "claude-acp": { "type": "registry", "env": { "CLAUDE_CODE_EXECUTABLE": "/usr/bin/claude" } },
    "Mine": {
      "type": "custom",
      "command": "/home/me/agent", "args": [],
      "default_mode": "plan", // always
    }
  },
  "languages": { "Python": { "tab_size": 4 } }
}"""


@requirement("R-EDIT-01")
@pytest.mark.parametrize("marks", ["", "\ufeff"], ids=["plain", "mark"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize(
    ("editor", "text"),
    [("jetbrains", JETBRAINS), ("vscode", VSCODE), ("zed", ZED_SERVERS), ("zed", ZED)],
)
def test_file_of_real_shape_is_as_before_when_all_agents_are_removed(
    tmp_path: Path, editor: str, text: str, newline: str, marks: str
) -> None:
    target, path = tmp_path / "dotfiles.json", tmp_path / "settings.json"
    data = f"{marks}{text}".replace("\n", newline).encode()
    target.write_bytes(data)
    path.symlink_to(target)
    for name in ("accord", "script"):
        assert main(["install", editor, name, "--file", str(path)]) == 0
    changed = target.read_bytes()
    assert changed.count(b"\n") == (
        changed.count(b"\r\n") if newline == "\r\n" else changed.count(b"\n")
    )
    kept = [line for line in data.splitlines() if line.strip() not in (b"}", b"},")]
    assert [line for line in kept if line not in changed and line + b"," not in changed] == []
    for name in ("script", "accord"):
        assert main(["install", editor, name, "--remove", "--file", str(path)]) == 0
    assert path.is_symlink()
    if text != ZED:  # an object that was added stays, empty, if the backup is of another agent
        assert target.read_bytes() == data


@requirement("R-EDIT-01")
def test_print_writes_nothing(zed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "zed", "--print"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["agent_servers"]["accord"]["args"][-1] == "agent"
    assert zed.read_text() == ZED
    assert [item.name for item in zed.parent.iterdir()] == ["settings.json"]


@requirement("R-EDIT-01")
def test_print_of_a_removal_writes_nothing(zed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["install", "zed"])
    text = zed.read_text()
    capsys.readouterr()
    assert main(["install", "zed", "--remove", "--print"]) == 0
    assert "accord" in json.loads(capsys.readouterr().out)["agent_servers"]
    assert zed.read_text() == text


def test_agent_that_is_gone_can_be_removed(zed: Path) -> None:
    zed.write_text('{"agent_servers": {"gone": {}, "other": {}}}')
    assert main(["install", "zed", "gone", "--remove"]) == 0
    assert json.loads(zed.read_text()) == {"agent_servers": {"other": {}}}


@pytest.mark.skipif(sys.platform != "linux", reason="the paths of Linux")
@pytest.mark.parametrize(
    ("editor", "path", "key"),
    [
        ("zed", ".config/zed/settings.json", "agent_servers"),
        ("jetbrains", ".jetbrains/acp.json", "agent_servers"),
        ("vscode", ".config/Code/User/settings.json", "acp.agents"),
    ],
)
def test_missing_file_is_made(home: Path, editor: str, path: str, key: str) -> None:
    assert main(["install", editor]) == 0
    entry = json.loads((home / path).read_text())[key]["accord"]
    assert Path(entry["command"]).is_absolute()
    assert Path(entry["command"]).exists()


@requirement("R-EDIT-02")
@needs("accord_coder")
def test_installed_agent_starts_without_the_environment_of_a_shell(zed: Path) -> None:
    assert main(["install", "zed"]) == 0
    text = zed.read_text().split("\n", 1)[1].replace("},\n}", "}\n}")
    entry = json.loads(text)["agent_servers"]["accord"]
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": 1, "clientCapabilities": {}},
    }
    ended = subprocess.run(
        [entry["command"], *entry["args"]],
        env={"HOME": os.environ["HOME"]},
        input=json.dumps(request).encode() + b"\n",
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert json.loads(ended.stdout.splitlines()[0])["result"]["protocolVersion"] == 1


def test_other_file_of_a_relative_of_the_editor(home: Path) -> None:
    path = home / "cursor.json"
    assert main(["install", "vscode", "script", "--file", str(path)]) == 0
    assert list(json.loads(path.read_text())["acp.agents"]) == ["script"]


def test_file_in_a_missing_folder_is_refused(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / "typo" / "settings.json"
    assert main(["install", "zed", "script", "--file", str(path)]) == 1
    assert f"Expected a file in a folder that exists, got {path}" in capsys.readouterr().err
    assert not path.parent.exists()


@requirement("R-EDIT-01")
def test_file_that_cannot_be_read_is_left(zed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zed.write_text("{\n  oops\n}")
    assert main(["install", "zed"]) == 1
    assert f"Cannot read {zed}: line 2, column 3: expected a key" in capsys.readouterr().err
    assert zed.read_text() == "{\n  oops\n}"


def test_unknown_agent_is_refused(zed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "zed", "nobody"]) == 1
    assert "No agent is named 'nobody'" in capsys.readouterr().err
    assert zed.read_text() == ZED


@requirement("R-EDIT-03")
@pytest.mark.parametrize("editor", ["codecompanion", "avante", "agent-shell", "jupyter"])
def test_editors_configured_by_code_get_a_text(
    home: Path, editor: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install", editor]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("Paste this into ")
    assert "accord" in captured.out
    assert main(["install", editor, "--remove"]) == 2
    assert list(home.iterdir()) == []
