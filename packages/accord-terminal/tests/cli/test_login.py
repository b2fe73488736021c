"""`accord ask` logs in at the terminal, and then sends the prompt again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.screen import at_a_terminal
from requirement import requirement

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="POSIX has terminals"),
    pytest.mark.slow,  # each starts two programs
]

AGENT = f"{sys.executable} {Path(__file__).parent / 'login_agent.py'}"
ASK = [sys.executable, "-m", "accord", "ask", "--agent", AGENT]
# `accord ask` has one path for both versions, whose events tests/client compares:
# most tests here need only one of them.
BOTH = pytest.mark.parametrize("version", ["1", "2"], ids=["v1", "v2"])


def asking(tmp_path: Path, version: str) -> Any:
    return at_a_terminal(*ASK, "--protocol", version, "hello", cwd=tmp_path)


@requirement("R-AUTH-12")
def test_prompt_is_sent_again_after_a_login_by_the_agent(tmp_path: Path) -> None:
    with asking(tmp_path, "1") as person:
        person.sees("In a terminal")
        person.sees("Log in with")
        person.types(b"1\n")
        assert person.leaves() == 0
        assert "Welcome by browser." in person.seen


@BOTH
@requirement("R-AUTH-15", "R-AUTH-18")
def test_terminal_login_runs_the_agents_command(version: str, tmp_path: Path) -> None:
    with asking(tmp_path, version) as person:
        person.sees("Log in with")
        person.types(b"2\n")
        person.sees("Password? ")
        person.types(b"right\n")
        assert person.leaves() == 0
        assert "Welcome by password." in person.seen


@requirement("R-AUTH-17")
def test_failed_terminal_login_is_reported_with_its_status(tmp_path: Path) -> None:
    with asking(tmp_path, "2") as person:
        person.sees("Log in with")
        person.types(b"2\n")
        person.sees("Password? ")
        person.types(b"wrong\n")
        assert person.leaves() == 1
        assert "ended with status 1" in " ".join(person.seen.split())


def test_declined_login_names_the_methods(tmp_path: Path) -> None:
    with asking(tmp_path, "2") as person:
        person.sees("Log in with")
        person.types(b"\n\x04")
        assert person.leaves() == 1
        assert "log in to the agent first" in person.seen
        assert "browser (In the browser) or terminal (In a terminal)" in person.seen.replace(
            "\r\n", " "
        )


@requirement("R-AUTH-14")
def test_login_is_not_offered_without_a_terminal(tmp_path: Path) -> None:
    done = subprocess.run(
        [*ASK, "hello"], input="", capture_output=True, text=True, timeout=50, cwd=tmp_path
    )
    assert done.returncode == 1
    assert "log in to the agent first" in done.stderr
    assert "browser" in done.stderr
    assert "terminal" not in done.stderr
