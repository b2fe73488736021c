"""`accord agents login`: by the agent, and at the terminal."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from accord.program import main
from accord_terminal.toolkit.agent_names import settings_path
from cli.screen import CTRL_C, at_a_terminal
from requirement import requirement

AGENT = Path(__file__).parent.parent / "cli" / "login_agent.py"
AGENTS = AGENT.with_name("agents.py")
LOGIN = (sys.executable, "-m", "accord", "agents", "login", "guarded")


@pytest.fixture(autouse=True)
def guarded(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings_path().parent.mkdir(parents=True)
    settings_path().write_text(f"[agents.guarded]\ncommand = ['{sys.executable}', '{AGENT}']\n")


@requirement("R-AUTH-12")
def test_login_by_the_agent(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agents", "login", "guarded", "--method", "browser"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "Logged in to guarded\n"
    assert "Logging in with In the browser" in captured.err


def test_without_a_terminal_the_only_other_method_is_taken(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["agents", "login", "guarded"]) == 0
    assert main(["agents", "login", "guarded", "--method", "terminal"]) == 1
    assert "no auth method 'terminal': expected one of browser" in capsys.readouterr().err


def test_one_of_several_is_chosen_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agents", "login", "script"]) == 1
    assert "choose one with --method, of script, refused" in capsys.readouterr().err
    assert main(["agents", "login", "script", "--method", "refused"]) == 1
    assert main(["agents", "login", "script", "--method", "script"]) == 0


def test_agent_without_a_login_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    settings_path().write_text(
        f"[agents.tiny]\ncommand = ['{sys.executable}', '{AGENTS}', 'stored', '1']\n"
    )
    assert main(["agents", "login", "tiny"]) == 1
    assert "tiny has no auth methods" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX has terminals")
@requirement("R-AUTH-15", "R-AUTH-18")
def test_login_at_the_terminal(tmp_path: Path) -> None:
    with at_a_terminal(*LOGIN, cwd=tmp_path) as person:
        person.sees("2  In a terminal")
        person.sees("Log in with")
        person.types(b"2\n")
        person.sees("Password? ")
        person.types(b"right\n")
        assert person.leaves() == 0
        assert "Logged in to guarded" in person.seen


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX has terminals")
@requirement("R-AUTH-17")
def test_login_that_fails_at_the_terminal_is_reported(tmp_path: Path) -> None:
    with at_a_terminal(*LOGIN, "--method", "terminal", cwd=tmp_path) as person:
        person.sees("Password? ")
        person.types(b"wrong\n")
        assert person.leaves() == 1
        assert "ended with status 1" in person.seen


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX has terminals")
@requirement("R-AUTH-17")
def test_interrupt_ends_the_login_command_only(tmp_path: Path) -> None:
    with at_a_terminal(*LOGIN, "--method", "terminal", cwd=tmp_path) as person:
        person.sees("Password? ")
        person.types(b"\x03")
        assert person.leaves() == 1
        assert "The login 'In a terminal' was interrupted" in person.seen


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX has terminals")
def test_wrong_number_of_a_login_is_asked_again(tmp_path: Path) -> None:
    with at_a_terminal(*LOGIN, cwd=tmp_path) as person:
        for wrong in (b"3", b"0", b"one"):
            person.sees_next("Log in with [1]: ")
            person.types(wrong + b"\n")
            person.sees_next(f"Expected a number from 1 to 2, got '{wrong.decode()}'")
        person.sees_next("Log in with [1]: ")
        person.types(b"\n")
        assert person.leaves() == 0
        assert "Logging in with In the browser" in person.seen


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX has terminals")
def test_end_of_the_input_leaves_the_list_of_logins(tmp_path: Path) -> None:
    with at_a_terminal(*LOGIN, cwd=tmp_path) as person:
        person.sees("Log in with")
        person.types(b"\x04")
        assert person.leaves() == 1
        assert "No auth method was chosen" in person.seen


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX has terminals")
def test_interrupt_leaves_the_list_of_logins(tmp_path: Path) -> None:
    with at_a_terminal(*LOGIN, cwd=tmp_path) as person:
        person.sees("Log in with")
        person.types(CTRL_C)
        assert person.leaves() == 130


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX has terminals")
def test_sigterm_leaves_the_list_of_logins(tmp_path: Path) -> None:
    with at_a_terminal(*LOGIN, cwd=tmp_path) as person:
        person.sees("Log in with")
        person.program.send_signal(signal.SIGTERM)
        assert person.leaves() == -signal.SIGTERM
