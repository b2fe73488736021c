"""`accord ask` at a terminal: questions, forms and Ctrl-C."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cli.screen import CTRL_C, at_a_terminal

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="POSIX has terminals"),
    pytest.mark.slow,  # each starts two programs
]

ASK = [sys.executable, "-m", "accord", "ask"]
AGENTS = Path(__file__).parent / "agents.py"
# `accord ask` has one path for both versions, whose events tests/client compares:
# most tests here need only one of them.
BOTH = pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])


def asking(tmp_path: Path, agent: str, version: int, *words: str) -> Any:
    command = f"{sys.executable} {AGENTS} {agent} {version}"
    return at_a_terminal(*ASK, "--agent", command, *words, cwd=tmp_path)


# What is typed is read the same way in both versions: only the first is tried with each.
@pytest.mark.parametrize(
    ("version", "keys", "answer"),
    [
        (1, b"1\n", "1 of 1"),
        (2, b"1\n", "1 of 1"),
        (1, b"reject\n", "0 of 1"),
        (2, b"\ny\n0\n5\n99999999\n-1\n1.\n3\n", "0 of 1"),  # asked again
        (1, b"\x04", "0 of 1"),
    ],
    ids=["allow-v1", "allow-v2", "by name", "wrong keys", "ctrl-d"],
)
def test_permission_is_asked_at_the_terminal(
    version: int, keys: bytes, answer: str, tmp_path: Path
) -> None:
    with asking(tmp_path, "script", version, "permission") as person:
        for key in keys.splitlines(keepends=True):
            person.sees_next("Choose 1 to 4: ")
            person.types(key)
        assert person.leaves() == 0
        assert f"{answer} allowed" in person.seen


def test_input_typed_before_a_question_is_ignored(tmp_path: Path) -> None:
    with asking(tmp_path, "script", 1, "permission") as person:
        person.types(b"1\n")
        person.sees("Choose 1 to ")
        person.types(b"3\n")
        assert person.leaves() == 0
        assert "0 of 1 allowed" in person.seen


def test_always_allowed_action_is_not_asked_again(tmp_path: Path) -> None:
    with asking(tmp_path, "script", 2, "permission 3") as person:
        person.sees("Choose 1 to ")
        person.types(b"2\n")
        assert person.leaves() == 0
        assert "3 of 3 allowed" in person.seen
        assert person.seen.count("Choose 1 to ") == 1


@BOTH
def test_ctrl_c_cancels_the_turn(version: int, tmp_path: Path) -> None:
    with asking(tmp_path, "script", version, "wait forever") as person:
        person.sees("◐")
        shown = {frame for frame in "⠋⠙⠹⠸" if person.sees(frame)}
        assert len(shown) == 4, "the spinner moves"
        person.types(CTRL_C)
        assert person.leaves() == 130
        assert "[cancelled]" in person.seen


def test_ctrl_c_during_a_question_cancels_the_turn(tmp_path: Path) -> None:
    with asking(tmp_path, "script", 1, "permission") as person:
        person.sees("Choose 1 to ")
        person.types(CTRL_C)
        assert person.leaves() == 130
        assert "[cancelled]" in person.seen


def unwrapped(seen: str) -> str:
    """Return the visible text without line breaks and colours."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\s", "", seen)


FIELDS = ("Name: ", "Count [3]: ", "Ratio [0.5]: ", "(y/n) [n]: ", "(a number) [green]: ")


@BOTH
def test_form_is_asked_field_by_field(version: int, tmp_path: Path) -> None:
    with asking(tmp_path, "script", version, "elicit form") as person:
        person.sees("Fill in one field of each kind.")
        for prompt, keys in [
            ("Name: ", "\n"),
            ("This field is required.", "Ada\n"),
            ("Count [3]: ", "1000\n"),
            ("Enter a valid value: at least 0 and at most 100.", "seven\n"),
            ("Enter a whole number: at least 0 and at most 100.", "7\n"),
            ("Ratio [0.5]: ", "0.25\n"),
            ("Sure (y/n) [n]: ", "maybe\n"),
            ("Enter a valid value.", "y\n"),
            ("1) blue", ""),
            ("Colour (a number) [green]: ", "1\n"),
            ("Parts (numbers, with commas): ", "1, tests\n"),
            ("Note (may be empty): ", "so so\n"),
        ]:
            person.sees_next(prompt)
            person.types(keys.encode())
        assert person.leaves() == 0
    said = '"name":"Ada","count":7,"ratio":0.25,"sure":true,"colour":"blue"'
    assert f'{said},"parts":["docs","tests"],"note":"soso"' in unwrapped(person.seen)


def test_empty_line_selects_the_default_of_a_field(tmp_path: Path) -> None:
    with asking(tmp_path, "script", 2, "elicit form") as person:
        person.sees("Name: ")
        person.types(b"Ada\n")
        for prompt in (*FIELDS[1:], "commas): ", "empty): "):
            person.sees_next(prompt)
            person.types(b"\n")
        assert person.leaves() == 0
    said = '"name":"Ada","count":3,"ratio":0.5,"sure":false,"colour":"green","parts":[]'
    assert said in unwrapped(person.seen)


@pytest.mark.parametrize("keys", [CTRL_C, b"\x04"], ids=["ctrl-c", "ctrl-d"])
def test_declined_form_does_not_end_the_turn(keys: bytes, tmp_path: Path) -> None:
    with asking(tmp_path, "script", 1, "elicit form") as person:
        person.sees("Name: ")
        person.types(keys)
        assert person.leaves() == 0
        assert "The form was not filled in." in person.seen


def test_input_after_a_declined_form_answers_the_next_question(tmp_path: Path) -> None:
    with asking(tmp_path, "asks_twice", 2, "go") as person:
        person.sees("Name: ")
        person.types(CTRL_C)
        person.sees("Choose 1 to ")
        person.types(b"1\n")
        assert person.leaves() == 0
        assert "None, then True." in person.seen


@pytest.mark.parametrize(
    ("key", "answer"), [(b"o\n", "was opened."), (b"d\n", "was not opened."), (CTRL_C, "was not")]
)
def test_url_is_shown_and_opened_if_the_user_agrees(
    key: bytes, answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.new && mv {opened}.new {opened}\n')
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{browser} %s &")
    with asking(tmp_path, "script", 1, "elicit url") as person:
        person.sees("https://example.com/sign-in")
        person.sees("ecline: ")
        person.types(key)
        assert person.leaves() == 0
        assert answer in person.seen
    if key == b"o\n":
        until = time.monotonic() + 10
        while not opened.exists():
            assert time.monotonic() < until, "no browser was started"
        assert opened.read_text() == "https://example.com/sign-in\n"


def test_form_contains_no_control_characters(tmp_path: Path) -> None:
    with asking(tmp_path, "nasty", 2, "go") as person:
        person.sees("empty): ")
        person.types(CTRL_C)
        assert person.leaves() == 0
    assert "\x1b[2J" not in person.seen
    assert "\x1b]0;" not in person.seen
    assert "  Allow all? [y]es" in person.seen  # indented further than lines of the program


def test_ctrl_c_stops_an_agent_that_does_not_start(tmp_path: Path) -> None:
    with asking(tmp_path, "silent", 2, "go") as person:
        person.sees("starting")
        person.types(CTRL_C)
        assert person.leaves() == 130
        assert "Traceback" not in person.seen


@pytest.mark.parametrize("options", [[], ["--terminals"]], ids=["theirs", "ours"])
def test_output_of_a_running_command_is_shown(options: list[str], tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import pathlib, sys\n"
        "print('\\033[32mfirst\\033[0m line', flush=True)\n"
        "while not pathlib.Path('go').exists(): pass\n"
        "print('last line'); sys.exit(3)\n",
        "utf-8",
    )
    run = f"terminal {sys.executable} slow.py"
    with asking(tmp_path, "script", 2, run, *options) as person:
        person.sees("│ first line")
        (tmp_path / "go").touch()
        assert person.leaves() == 0
        assert "│ last line" in person.seen
        assert "ended with status 3" in person.seen.replace("\r\n", " ")


def test_markdown_is_rendered_and_the_spinner_is_removed(tmp_path: Path) -> None:
    with asking(tmp_path, "script", 2, "echo **bold** text") as person:
        assert person.leaves() == 0
    assert "\x1b[1mbold\x1b[0m" in person.seen
    assert "\x1b[?25h" in person.seen  # the cursor is visible again
