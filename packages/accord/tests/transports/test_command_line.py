from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from accord.errors import StartError
from accord.transports.command_line import (
    argv_of,
    batch_line,
    environment,
    find_program,
    why_not_started,
)

COMMANDS = [
    ("my-agent", ["my-agent"]),
    ("my-agent --acp  --model 'a b'", ["my-agent", "--acp", "--model", "a b"]),
    (["my agent", "--acp"], ["my agent", "--acp"]),
    (("my-agent", Path("a")), ["my-agent", "a"]),
    (Path("my agent"), ["my agent"]),
]


def test_command_is_split_into_words() -> None:
    for command, words in COMMANDS:
        assert argv_of(command) == words, (command, words)


def test_command_without_words_is_an_error() -> None:
    for command in ("", "  ", [], [""]):
        with pytest.raises(ValueError, match="must not be empty"):
            argv_of(command)


def test_backslashes_stay_in_commands_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert argv_of(r'"C:\Program Files\agent.exe" --dir C:\a') == [
        r"C:\Program Files\agent.exe",
        "--dir",
        r"C:\a",
    ]


def test_environment_is_inherited_with_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "1")
    monkeypatch.setenv("CHANGED", "1")
    monkeypatch.setenv("GONE", "1")
    env = environment({"CHANGED": "2", "GONE": None, "NEVER_WAS": None, "NEW": "3"})
    assert env is not None
    assert (env["KEPT"], env["CHANGED"], env["NEW"]) == ("1", "2", "3")
    assert not {"GONE", "NEVER_WAS"} & env.keys()


def test_without_changes_the_environment_is_inherited() -> None:
    assert environment(None) is None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a directory with a program, a file that is not executable, and a directory."""
    (tmp_path / "program").write_text("#!/bin/sh\n")
    (tmp_path / "program").chmod(0o755)
    (tmp_path / "text").write_text("")
    (tmp_path / "folder").mkdir()
    return tmp_path


def test_program_is_found_in_the_path_of_its_environment(folder: Path) -> None:
    assert find_program("program", None, {"PATH": f"/nowhere:{folder}"}) == str(folder / "program")


def test_relative_entry_of_the_path_is_relative_to_the_current_directory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert find_program("program", "/", {"PATH": "."}) == str(folder / "program")


def test_relative_program_is_relative_to_the_directory_where_it_runs(folder: Path) -> None:
    assert find_program("./program", str(folder), None) == str(folder / "program")


START_ERRORS = [
    ("nothing", None, "not found in PATH (/nowhere:{0})"),
    ("text", None, "{0}/text is not executable"),
    ("{0}/text", None, "{0}/text is not executable"),
    ("{0}/folder", None, "{0}/folder is a directory"),
    ("{0}/nothing", None, "{0}/nothing does not exist"),
    ("./nothing", "{0}", "{0}/nothing does not exist"),
    ("program", "{0}/nothing", "the working directory {0}/nothing does not exist"),
    ("program", "{0}/text", "the working directory {0}/text is not a directory"),
]


def test_start_error_names_command_and_reason(folder: Path) -> None:
    for word, cwd, reason in START_ERRORS:
        word, reason = word.format(folder), reason.format(folder)
        with pytest.raises(StartError) as caught:
            find_program(word, cwd and cwd.format(folder), {"PATH": f"/nowhere:{folder}"})
        assert str(caught.value) == f"Cannot start {word}: {reason}", (word, cwd)


SYSTEM_ERRORS = [
    (
        FileNotFoundError(2, "No such file"),
        "the interpreter in the first line of /p/x does not exist",
    ),
    (OSError(8, "Exec format error"), "/p/x: Exec format error"),
    (ValueError("embedded null byte"), "embedded null byte"),
]


def test_system_error_is_explained() -> None:
    for error, reason in SYSTEM_ERRORS:
        assert str(why_not_started("x", "/p/x", error)) == f"Cannot start x: {reason}", (
            error,
            reason,
        )


def test_arguments_for_a_batch_file_are_all_quoted() -> None:
    line = batch_line("cmd.exe", r"C:\npm\agent.cmd", ["--a", "b & c", "d\\", "e!^"])
    assert line == (
        r'"cmd.exe" /e:ON /v:OFF /d /s /c ""C:\npm\agent.cmd" "--a" "b & c" "d\\" "e!^""'
    )


def test_argument_that_cannot_be_quoted_for_a_batch_file_is_an_error() -> None:
    for word in ('a"b', "%PATH%", "a\nb", "a\rb", "a\0b"):
        with pytest.raises(StartError, match="a batch file cannot be given"):
            batch_line("cmd.exe", "agent.cmd", [word])


def test_found_program_is_executable() -> None:
    assert os.access(find_program("sh", None, None), os.X_OK)
