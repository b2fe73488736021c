"""`accord ask` against the script agent: exit statuses, permissions, JSON lines, Ctrl-C."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from accord.program import main
from accord_terminal.ask.options import exit_status
from accord_terminal.toolkit.text import one_line

AGENTS = Path(__file__).parent / "agents.py"
# `accord ask` has one path for both versions, whose events tests/client compares:
# most tests here need only one of them.
BOTH = pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])
ANSWER = (
    "import json, sys; asked = json.loads(sys.stdin.readline());"
    "print(json.dumps({{'jsonrpc': '2.0', 'id': asked['id'], 'result': {}}}))"
)
SCRIPT = ["--agent", f"{sys.executable} -m accord agent script"]
ASK = [sys.executable, "-m", "accord", "ask", *SCRIPT]
posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX has signals and terminals")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ask(*words: str) -> int:
    return main(["ask", *([] if "--agent" in words else SCRIPT), *words])


def agent(name: str, version: int) -> list[str]:
    """Return the options that select an agent of one version."""
    return ["--agent", f"{sys.executable} {AGENTS} {name} {version}"]


@pytest.mark.parametrize("apart", [False, True], ids=["one file", "two files"])
def test_other_output_is_on_separate_lines(apart: bool, folder: Path) -> None:
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        streams: dict[str, Any] = {"stdout": out, "stderr": err if apart else subprocess.STDOUT}
        command = [*ASK[:-2], *agent("talks_and_works", 2), "go"]
        assert subprocess.run(command, timeout=60, check=False, **streams).returncode == 0
    said = (folder / "out").read_text("utf-8")
    if apart:
        assert said == "Before.\n\nBetween.\n\nAfter.\n"
        assert (folder / "err").read_text("utf-8") == "● One\n● Two\n"
    else:
        assert said == "Before.\n● One\n\nBetween.\n● Two\n\nAfter.\n"


@pytest.mark.parametrize(
    ("prompt", "version", "status"),
    [
        ("stop end_turn", 1, 0),
        ("stop max_tokens", 2, 3),
        ("stop max_turn_requests", 1, 3),
        ("stop refusal", 2, 4),
        ("stop cancelled", 1, 130),
        ("stop error", 2, 1),
        ("stop _lunch", 1, 0),  # version 1 has no custom stop reasons
        ("stop _lunch", 2, 3),
        ("error", 1, 1),
        ("error", 2, 1),
        ("exit 3", 2, 1),
    ],
)
def test_exit_status_depends_on_the_stop_reason(version: int, prompt: str, status: int) -> None:
    assert ask(prompt, *agent("script", version)) == status


def test_custom_stop_reason_is_an_early_stop() -> None:
    assert exit_status("_lunch") == 3
    assert exit_status(None) == 1


def test_each_message_is_a_paragraph(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("updates", *agent("script", 1)) == 0
    assert capsys.readouterr().out == "A message.\n\nOne of each.\n"


def test_title_with_line_breaks_is_one_line() -> None:
    assert one_line("Read a\n● Edit b\x1b[2J\r") == "Read a ● Edit b[2J"


def test_answer_goes_to_stdout_and_other_output_to_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ask("tools") == 0
    said = capsys.readouterr()
    assert "●" in said.err
    assert "●" not in said.out


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys; sys.exit('no key')", ["exited with status 1: no key"]),
        (
            "print('Hello!'); input()",
            ["exited with status 0", "stdout, which must contain only JSON", "Hello!"],
        ),
        ("raise KeyError('x')", ["exited with status 1: KeyError: 'x'", "stderr", "line 1"]),
        (ANSWER.format({"protocolVersion": 7}), ["protocol version 7, this client 1 and 2"]),
        (ANSWER.format({}), ["Expected a number at $.protocolVersion", "got nothing"]),
        (
            ANSWER.format({"protocolVersion": 2, "info": 3}),
            ["Expected `object`, got `int` at $.info"],
        ),
    ],
    ids=["leaves", "talks", "fails", "future", "nothing", "garbled"],
)
def test_agent_that_fails_to_initialize_is_reported_with_its_output(
    code: str, said: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "broken.py").write_text(code, "utf-8")
    assert ask("hi", "--agent", f"{sys.executable} broken.py") == 1
    shown = capsys.readouterr().err
    assert not [words for words in said if words not in shown], shown


def test_agent_that_does_not_respond_to_initialize_times_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accord_terminal.ask.run.INITIALIZE_S", 0.2)
    assert ask("hi", *agent("silent", 2)) == 1
    assert "did not respond to `initialize` within" in capsys.readouterr().err


def test_agent_that_cannot_be_started_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("hi", "--agent", "no-such-agent --acp") == 1
    said = capsys.readouterr().err
    assert "accord ask: cannot start no-such-agent: not found in PATH" in said
    assert said.endswith("`accord agents` lists the agents that have a name.\n")


def test_last_stderr_lines_of_a_failed_agent_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("crash", *agent("script", 2)) == 1
    shown = capsys.readouterr().err
    assert "accord ask: Internal error (-32603)" in shown
    assert "RuntimeError: The script agent was told to crash" in shown


def test_required_login_lists_the_auth_methods(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "agent.py").write_text(
        "from accord import AuthRequired, v1\n"
        "class Shy(v1.AgentRole):\n"
        "    auth_methods = [v1.AuthMethodAgent(id='key', name='By key')]\n"
        "    def authenticate(self, params, context): ...\n"
        "    def prompt(self, params, context): ...\n"
        "    def new_session(self, params, context): raise AuthRequired\n"
        "v1.run(Shy())\n",
        "utf-8",
    )
    assert ask("hi", "--agent", f"{sys.executable} agent.py") == 1
    assert "key (By key)" in capsys.readouterr().err


def test_invalid_command_line_is_status_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for words, why in (
        ([], "Expected a PROMPT, got an empty one"),
        ([""], "Expected a PROMPT, got an empty one"),
        (["hi", "--session", "x", "--continue"], "exclude each other"),
        (["hi", "no-such-file"], "'no-such-file' does not exist"),
        (["hi", "."], "is a directory"),
        (["hi", "--cwd", "nowhere"], "'nowhere' does not exist"),
        (["hi", "--agent", ""], "Expected a name or a command line, got ''"),
        (["hi", "--agent", "'open"], "No closing quotation"),
        (["hi", "--allow", "eat:*"], "Expected a kind of tool call, got 'eat' in 'eat:*'"),
        (["hi", "--allow", ":x"], "got '' in ':x'"),
        (["hi", "--continue"], "no session to continue in"),
        (["hi", "--frobnicate"], "No such option"),
    ):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
        assert ask(*words) == 2, words
        assert why in " ".join(capsys.readouterr().err.split()), words


# Continued sessions.


@pytest.mark.slow
@BOTH
def test_session_is_continued_by_its_id_or_as_the_latest_of_the_folder(
    version: int, capfd: pytest.CaptureFixture[str]
) -> None:
    ids: list[str] = []
    for word in ("one", "two"):
        assert ask(word, "--json", *agent("stored", version)) == 0
        first, *_, last = lines(capfd)
        assert last["text"] == f"Before: None. Now: {word}."
        ids.append(first["session_id"])
    for option, continued, said in (
        (["--continue"], ids[1], "Before: two. Now: three."),
        (["--session", ids[0]], ids[0], "Before: one. Now: three."),
    ):
        assert ask("three", "--json", *option, *agent("stored", version)) == 0
        first, *_, last = lines(capfd)
        assert (first["session_id"], last["text"]) == (continued, said)


def test_unknown_session_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("hi", "--session", "lost", *agent("stored", 2)) == 1
    assert "The agent has no session 'lost'" in capsys.readouterr().err


def test_agent_without_stored_sessions_cannot_continue(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("hi", "--session", "x", *agent("stubborn", 1)) != 0
    assert ask("hi", "--continue", *agent("stubborn", 1)) == 2
    assert "session" in capsys.readouterr().err


def lines(capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def test_json_lines_are_events_between_session_and_end(capfd: pytest.CaptureFixture[str]) -> None:
    assert ask("echo hi", "--json") == 0
    first, *events, last = lines(capfd)
    assert first["event"] == "session"
    assert [e["text"] for e in events if e["event"] == "text"] == ["hi"]
    assert last == {"event": "end", "stop_reason": "end_turn", "text": "hi", "token_usage": None}


@pytest.mark.parametrize("prompt", ["full", "content"])
@BOTH
def test_every_event_can_be_written_as_json(
    version: int, prompt: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "README.md").write_text("# Here\n", "utf-8")
    ask(prompt, "--json", "--yes", "--terminals", *agent("script", version))
    assert all("event" in line for line in lines(capfd))


@pytest.mark.parametrize(
    ("options", "allowed"),
    [([], False), (["--allow", "*"], True), (["--allow", "fetch:x"], False)],
    ids=["nobody", "rule", "other rule"],
)
def test_permission_is_rejected_without_a_user(
    options: list[str], allowed: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    ask("permission", "--json", *options)
    (permission,) = [line for line in lines(capfd) if line["event"] == "permission_decided"]
    assert permission["option"]["kind"] == ("allow_once" if allowed else "reject_once")


def test_turn_that_the_agent_cancels_after_a_rejection_is_not_an_interrupt(
    capfd: pytest.CaptureFixture[str],
) -> None:
    words = agent("stops_when_rejected", 1)
    assert ask("go", *words, "--yes") == 0
    assert ask("go", *words) == 3
    assert ask("go", *words, "--deny", "*") == 130  # a rule of the user, not a missing user
    assert "rejected without asking the user" in capfd.readouterr().err


def test_files_are_attached_to_the_prompt(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
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


# Output that the terminal or a pipe does not accept.


def run(*words: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    """Run `accord ask` in its own process."""
    return subprocess.run([*ASK, *words], stderr=subprocess.PIPE, timeout=60, check=False, **more)


def test_error_of_the_agent_is_shown_to_people_and_programs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "poor.py").write_text(
        "from accord import Agent, RequestError\n"
        "class Poor(Agent):\n"
        "    async def prompt(self, turn):\n"
        "        if turn.text == 'evil':\n"
        "            raise RequestError('no \\x1b[2Jway\\x07')\n"
        "        raise RequestError(data={'details': 'no credit left', 'key': 'sk-1'})\n"
        "Poor().run()\n"
    )
    poor = ("--agent", f"{sys.executable} poor.py")
    assert ask("evil", *poor) == 1  # which moves no cursor
    assert "accord ask: no \\x1b[2Jway\\x07 (-32603)" in capsys.readouterr().err
    reported = "Internal error: no credit left (-32603)"
    assert ask("go", *poor) == 1
    shown = capsys.readouterr().err
    assert f"accord ask: {reported}" in shown
    assert "sk-1" not in shown
    assert ask("go", "--json", *poor) == 1
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last == {"event": "error", "message": reported, "code": -32603}


def test_characters_that_stdout_cannot_encode_are_replaced() -> None:
    env = os.environ | {"PYTHONIOENCODING": "ascii"}
    ran = run("echo h\u00e9", env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert (ran.returncode, ran.stdout.strip()) == (0, b"h?")


@posix
def test_user_is_not_asked_if_stdin_is_closed() -> None:
    command = ["/bin/sh", "-c", 'exec "$@" <&-', "sh", *ASK, "permission"]
    ran = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout.strip()) == (3, b"0 of 1 allowed.")
    said = ran.stderr.decode()
    assert "rejected without asking the user: no terminal is available to ask at" in said
    assert "Do thing 1" in said
    assert "To allow it: --allow edit, or --yes for everything." in said
