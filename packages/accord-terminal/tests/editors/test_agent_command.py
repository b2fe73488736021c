"""Editors get absolute paths that exist."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from accord_terminal.editor_settings import EditorError
from accord_terminal.install import accord_program, editor_command
from accord_terminal.toolkit.agent_names import AgentEntry, Settings, find_agent
from requirement import requirement

pytestmark = requirement("R-EDIT-02")


def program(folder: Path, name: str, first_line: str) -> Path:
    path = folder / name
    path.write_text(f"{first_line}\n")
    path.chmod(0o755)
    return path


def settings(command: str | list[str], **entry: object) -> Settings:
    return Settings(agents={"mine": AgentEntry(command, **entry)})  # pyright: ignore[reportArgumentType]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_own_agent_starts_without_path() -> None:
    words = accord_program()
    assert Path(words[0]).is_absolute()
    found = subprocess.run([*words, "--version"], env={}, capture_output=True, check=True)
    assert found.stdout.startswith(b"accord ")
    assert editor_command(find_agent("accord", Settings())).args[-1:] == ("agent",)


def test_program_of_path_becomes_absolute(folder: Path) -> None:
    path = program(folder, "gemini", "#!/bin/sh")
    found = editor_command(find_agent("gemini", Settings()))
    assert (found.command, found.args) == (str(path), ("--acp",))


def test_script_for_env_is_given_to_its_interpreter(folder: Path) -> None:
    node = program(folder, "node", "#!/bin/sh")
    path = program(folder, "gemini", "#!/usr/bin/env -S node --no-warnings")
    found = editor_command(find_agent("gemini", Settings()))
    assert (found.command, found.args) == (str(node), ("--no-warnings", str(path), "--acp"))


def test_missing_interpreter_is_named(folder: Path) -> None:
    program(folder, "gemini", "#!/usr/bin/env node")
    with pytest.raises(EditorError, match="needs node, which is not in PATH"):
        editor_command(find_agent("gemini", Settings()))


def test_missing_program_is_an_error(folder: Path) -> None:
    with pytest.raises(EditorError, match="Cannot start gemini: not found in PATH"):
        editor_command(find_agent("gemini", Settings()))


def test_script_of_this_folder_becomes_absolute(folder: Path) -> None:
    script = program(folder, "agent.py", "pass")
    (folder / "plan").write_text("")
    known = settings([sys.executable, "agent.py", "plan", "x.py"], env={"A": "1"})
    found = editor_command(find_agent("mine", known))
    assert found.command == sys.executable
    assert found.args == (str(script), "plan", "x.py")
    assert found.env == {"A": "1"}


def test_remote_agent_is_reached_by_the_bridge() -> None:
    found = editor_command(find_agent("mine", settings("wss://host/acp")))
    assert found.args[-2:] == ("bridge", "wss://host/acp")
