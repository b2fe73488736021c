"""The settings file: named agents, defaults, and errors."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from accord.program import main
from accord_terminal.toolkit.agent_names import Settings, find_agent, load_settings, named_agents


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACCORD_CONFIG", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, text: str) -> None:
    (folder / "settings.toml").write_text(text, "utf-8")


def test_missing_file_is_empty_settings() -> None:
    assert load_settings() == Settings()
    assert find_agent(None, load_settings()).name == "accord"


def test_named_agent_is_started_with_its_defaults(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = json.dumps([sys.executable, "-m", "accord", "agent", "script"])
    write(
        folder,
        f"""
        [ask]
        agent = "mine"

        [agents.mine]
        command = {command}
        protocol = 1
        mode = "read"
        options = {{ brief = true }}
        """,
    )
    assert main(["ask", "--json", "echo hi"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["protocol_version"] == 1
    assert {"mode": "read", "brief": True}.items() <= lines[0]["options"].items()


def test_agent_in_the_settings_replaces_a_well_known_one(folder: Path) -> None:
    write(folder, '[agents.claude]\ncommand = "my-claude --acp"')
    found = find_agent("claude", load_settings())
    assert (found.argv, found.source) == (("my-claude", "--acp"), "settings")


def test_value_that_is_not_a_name_is_a_command_line() -> None:
    assert find_agent("python 'my agent.py'", load_settings()).argv == ("python", "my agent.py")
    with pytest.raises(ValueError, match="closing quotation"):
        find_agent("python 'my", load_settings())


def test_invalid_settings_name_the_file_and_the_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text, fault in (
        ("[ask]\nallow = ['dance']", "ask.allow: Expected a kind of tool call, got 'dance'"),
        ("[ask]\ntimeout = -1", "ask.timeout: expected a number of seconds above 0, got -1"),
        ("[ask]\ntimeout = nan", "ask.timeout: expected a number of seconds above 0, got nan"),
        ("agents = 3", "Expected `object`, got `int` - at `$.agents`"),
        ("[agents.x]\ncomand = 'x'", "field `com"),
        ("[agents.x]\ncommand = 'x'\nprotcol = 1", "unknown field `protcol`"),
        ("[agents.x]\ncommand = 'x'\nprotocol = 3", "Invalid enum value 3, expected 1 or 2 - at"),
        ("[agents.'a b']\ncommand = 'x'", "'a b'"),
        ("[ask", "TOML"),
        ('[agents.x]\ncommand = "it\'s"', "agents.x.command"),
        ("[agents.x]\ncommand = []", "agents.x.command"),
    ):
        write(folder, text)
        # `accord agents` does not read rules.
        commands = [["ask", "hello"]] if "dance" in text else [["ask", "hello"], ["agents"]]
        for command in commands:
            assert main(command) == 2, text
            said = " ".join(capsys.readouterr().err.split())
            assert str(folder / "settings.toml") in said, text
            assert fault in said or fault == "TOML", text


def test_agents_lists_names_and_marks_the_default(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, f"[ask]\nagent = 'mine'\n[agents.mine]\ncommand = ['{sys.executable}']")
    assert main(["agents"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[:3] for row in rows if row.startswith("*")] == [["*", "mine", "settings"]]
    assert main(["agents", "--json"]) == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert listed.keys() == named_agents(load_settings()).keys()
    assert listed["mine"]["default"]
    assert listed["mine"]["installed"]
    assert listed["script"]["source"] == "bundled"
