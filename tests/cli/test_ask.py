"""`accord ask` against the bundled agent: exit statuses, permissions, JSON lines, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from accord.cli.ask import status_of
from accord.cli.main import main
from accord.cli.shown import diff_lines, finished, printable
from accord.model.tools import Diff

ASK = [sys.executable, "-m", "accord", "ask"]
posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX has signals and terminals")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ask(*words: str) -> int:
    return main(["ask", *words])


@pytest.mark.parametrize(
    ("prompt", "status"),
    [
        ("echo hi", 0),
        ("stop max_tokens", 3),
        ("stop refusal", 4),
        ("stop cancelled", 130),
        ("error", 1),
        ("exit 3", 1),
    ],
)
def test_exit_status_tells_how_the_turn_ended(prompt: str, status: int) -> None:
    assert ask(prompt) == status


def test_stop_reason_of_the_agents_own_is_a_stop_like_others() -> None:
    assert status_of("_lunch") == 3
    assert status_of(None) == 1


def test_answer_goes_to_stdout_and_all_else_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("tools") == 0
    said = capsys.readouterr()
    assert "●" in said.err
    assert "●" not in said.out


def test_agent_that_cannot_be_started_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("hi", "--agent", "no-such-agent --acp") == 1
    assert "no-such-agent" in capsys.readouterr().err


def test_agent_that_wants_a_login_says_how(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "agent.py").write_text(
        "from accord import AuthRequired, v1\n"
        "class Shy(v1.Agent):\n"
        "    auth_methods = [v1.AuthMethodAgent(id='key', name='By key')]\n"
        "    def authenticate(self, params, context): ...\n"
        "    def prompt(self, params, context): ...\n"
        "    def new_session(self, params, context): raise AuthRequired\n"
        "v1.run(Shy())\n",
        "utf-8",
    )
    assert ask("hi", "--agent", f"{sys.executable} agent.py") == 1
    assert "key (By key)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["hi", "--session", "x", "--continue"],
        ["hi", "no-such-file"],
        ["hi", "--cwd", "nowhere"],
    ],
    ids=["nothing", "two sessions", "no file", "no directory"],
)
def test_wrong_command_line_is_status_2(words: list[str]) -> None:
    assert ask(*words) == 2


def lines(capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def test_json_lines_are_events_between_session_and_end(capfd: pytest.CaptureFixture[str]) -> None:
    assert ask("echo hi", "--json") == 0
    first, *events, last = lines(capfd)
    assert first["event"] == "session"
    assert [e["text"] for e in events if e["event"] == "text"] == ["hi"]
    assert last == {"event": "end", "stop_reason": "end_turn", "text": "hi", "tokens": None}


@pytest.mark.parametrize("prompt", ["full", "updates", "tools", "content", "error", "plan"])
def test_every_event_can_be_written_as_json(
    prompt: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "README.md").write_text("# Here\n", "utf-8")
    ask(prompt, "--json", "--yes")
    assert all("event" in line for line in lines(capfd))


@pytest.mark.parametrize(
    ("options", "allowed"),
    [([], False), (["--yes"], True), (["--allow", "*"], True), (["--allow", "fetch:x"], False)],
    ids=["nobody", "yes", "rule", "other rule"],
)
def test_permission_is_refused_when_there_is_nobody_to_ask(
    options: list[str], allowed: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    ask("permission", "--json", *options)
    (permission,) = [line for line in lines(capfd) if line["event"] == "permission"]
    assert permission["option"]["kind"] == ("allow_once" if allowed else "reject_once")


def test_files_go_with_the_prompt(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "notes.txt").write_text("remember", "utf-8")
    assert ask("echo see", "notes.txt", "--json") == 0
    user = [line for line in lines(capfd) if line.get("role") == "user"]
    assert any("notes.txt" in json.dumps(line) for line in user)


@posix
def test_ctrl_c_cancels_the_turn(folder: Path) -> None:
    running = subprocess.Popen([*ASK, "wait forever", "--json"], stdout=subprocess.PIPE, cwd=folder)
    assert running.stdout is not None
    with running:
        for line in running.stdout:
            if json.loads(line)["event"] == "tool_call":
                running.send_signal(signal.SIGINT)
                break
        rest = running.stdout.read().splitlines()
        assert running.wait(20) == 130
    assert json.loads(rest[-1])["stop_reason"] == "cancelled"


@posix
@pytest.mark.parametrize(("key", "mark"), [(b"y\n", "●"), (b"n\n", "⊘"), (b"\n", "⊘")])
def test_permission_is_asked_at_the_terminal(key: bytes, mark: str, folder: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    env = os.environ | {"TERM": "xterm", "COLUMNS": "80", "LC_ALL": "C.UTF-8"}
    running = subprocess.Popen(
        [*ASK, "permission"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=env
    )
    os.close(theirs)
    shown = b""
    with running:
        while b"ever: " not in shown:
            shown += os.read(ours, 4096)
        os.write(ours, key)
        try:
            while data := os.read(ours, 4096):
                shown += data
        except OSError:
            pass  # Linux says so when the other side is gone
        assert running.wait(20) == 0
    os.close(ours)
    assert mark in shown.decode("utf-8", "replace")


def test_markdown_is_finished_at_blank_lines_outside_of_code() -> None:
    assert finished("one\n\ntwo") == len("one\n\n")
    assert finished("```\na\n\nb") == 0
    assert finished("```\na\n\nb\n```\n\nend") == len("```\na\n\nb\n```\n\n")
    assert finished("one\n ") == 0


def test_nothing_moves_the_cursor() -> None:
    assert printable("a\x1b[2Jb\x9b1m\r\tc\nd\x7f") == "a[2Jb1m\tc\nd"


def test_diff_is_coloured() -> None:
    styled = diff_lines(Diff("/a", "one\ntwo\n", "one\nthree\n"))
    assert ("-two", "red") in styled
    assert ("+three", "green") in styled
    assert diff_lines(Diff("/a", None, "x"))[0] == ("--- /dev/null", "bold")
    assert diff_lines(Diff("/a", patch="+x")) == [("+x", "green")]
