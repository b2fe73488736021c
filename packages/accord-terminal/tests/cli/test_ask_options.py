"""Options of `accord ask`: source of the prompt, session options, time limits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from accord.program import main
from accord_terminal.ask import conversation
from accord_terminal.toolkit.session_setup import apply_session_options
from client.test_sessions import MODES, answering, by_hand, select, with_options
from needs import needs
from requirement import requirement

AGENTS = Path(__file__).parent / "agents.py"
META_AGENT = Path(__file__).parents[1] / "sessions_named" / "meta_agent.py"
SCRIPT = ["--agent", "script"]
# `accord ask` has one path for both versions, whose events tests/client compares:
# most tests here need only one of them.
BOTH = pytest.mark.parametrize("version", ["1", "2"], ids=["v1", "v2"])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACCORD_CONFIG", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ask(*words: str) -> int:
    return main(["ask", *SCRIPT, *words])


def events(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def run(*words: str, stdin: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "accord", "ask", *SCRIPT, *words],
        input=stdin,
        capture_output=True,
        timeout=50,
        check=False,
    )


def test_prompt_is_read_from_standard_input() -> None:
    for words in (("--quiet",), ("--quiet", "-")):
        done = run(*words, stdin="echo grüß dich\n".encode())
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.decode() == "grüß dich\n"
    for stdin, fault in ((b"", b"an empty one"), (b" \n", b"an empty one"), (b"\xff", b"UTF-8")):
        done = run(stdin=stdin)
        assert (done.returncode, done.stdout) == (2, b"")
        assert fault in done.stderr


@BOTH
def test_model_mode_and_options_are_set_before_the_prompt(
    version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--model", "large", "--mode", "read", "--option", "brief=on")
    assert ask("--protocol", version, *words, "--json", "echo hi") == 0
    session = events(capsys)[0]
    assert session["protocol_version"] == int(version)
    assert session["options"] == {"model": "large", "mode": "read", "brief": True}


def test_unknown_choice_is_a_usage_error_that_lists_the_valid_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words, fault in (
        (("--model", "gpt"), "--model: expected one of large, small, tiny, got 'gpt'"),
        (("--mode", "x"), "--mode: expected one of ask, auto, read, got 'x'"),
        (("--option", "nope=1"), "--option: expected one of brief, mode, model, got 'nope'"),
        (("--option", "brief=maybe"), "--option brief: expected on or off, got 'maybe'"),
        (("--option", "brief"), "Expected ID=VALUE, got 'brief'"),
        (("--timeout", "0"), "Expected a number of seconds above 0, got 0"),
        (("--timeout", "nan"), "Expected a number of seconds above 0, got nan"),
        (("--deny", "dance"), "Expected a kind of tool call, got 'dance'"),
        (("--protocol", "3"), "'3' is not one of '1', '2'"),
        (("--quiet", "--json"), "--quiet and --json exclude each other"),
        (("--meta", "[1]"), "Expected a JSON object, got '[1]'"),
        (("--meta", "x"), "Expected a JSON object, got 'x'"),
        (("--meta", "{}", "-s", "fix"), "-s: give --mcp, --meta and --terminals to"),
        (("--retries", "-1"), "-1 is not in the range x>=0"),
        (("--file", "missing.md"), "--file: missing.md: No such file or directory"),
        (("--agent", "it's"), "Expected a name or a command line"),
    ):
        assert ask(*words, "echo hi") == 2, words
        said = capsys.readouterr()
        assert said.out == "", words
        assert fault in " ".join(said.err.split()), words


@needs("accord_coder")
def test_model_of_a_provider_without_a_key_is_a_usage_error_that_names_the_key(
    capsys: pytest.CaptureFixture[str],
) -> None:
    agent = f"{sys.executable} -m accord agent --model demo"
    assert main(["ask", "--agent", agent, "--model", "gpt-5", "hello"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "--model: expected one of demo, got 'gpt-5'; other models need the API key" in said


def test_deny_rule_takes_precedence_over_yes(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("--protocol", "2", "--yes", "--quiet", "permission") == 0
    assert "1 of 1 allowed" in capsys.readouterr().out
    assert ask("--protocol", "2", "--yes", "--deny", "*", "--quiet", "permission") == 0
    assert "0 of 1 allowed" in capsys.readouterr().out


@BOTH
def test_turn_that_takes_too_long_is_cancelled(
    version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask("--protocol", version, "--timeout", "0.1", "--json", "wait forever") == 3
    said = capsys.readouterr()
    assert json.loads(said.out.splitlines()[-1])["stop_reason"] == "cancelled"
    assert "cancelled after 0.1 s (--timeout)" in said.err


def test_timeout_does_not_affect_a_turn_that_ends_in_time() -> None:
    assert ask("--timeout", "50", "--quiet", "echo hi") == 0


@pytest.mark.parametrize(
    ("version", "prompt", "retries", "status", "answer", "warnings"),
    [
        ("1", "2", "2", 0, "Prompt 3.\n", 2),
        ("2", "2", "2", 0, "Prompt 3.\n", 2),
        ("1", "2", "1", 1, "", 1),
        ("2", "1", "0", 1, "", 0),
        # It would begin twice, or fail again.
        ("1", "1 aloud", "2", 1, "I begin.\n", 0),
        ("2", "1 aloud", "2", 1, "I begin.\n", 0),
        ("1", "1 invalid", "2", 1, "", 0),
        ("2", "1 invalid", "2", 1, "", 0),
    ],
)
def test_prompt_is_repeated_if_the_agent_failed_before_it_did_anything(
    version: str,
    prompt: str,
    retries: str,
    status: int,
    answer: str,
    warnings: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conversation, "LONGEST_PAUSE_S", 0)
    agent = f"{sys.executable} {AGENTS} fails {version}"
    assert main(["ask", "--agent", agent, "--quiet", "--retries", retries, prompt]) == status
    said = capsys.readouterr()
    assert said.out == answer or (status == 1 and not said.out)
    assert said.err.count("; repeating the prompt in") == warnings


@pytest.mark.parametrize("words", [("--file", "p.md"), ("-f", "p.md", "echo 1")])
def test_prompt_is_read_from_a_file(
    words: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "p.md").write_text("echo grüß dich\n", "utf-8")
    assert ask("--quiet", *words) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("grüß dich")


@BOTH
def test_meta_is_sent_with_the_session(version: str, capsys: pytest.CaptureFixture[str]) -> None:
    agent = f"{sys.executable} {META_AGENT} {version}"
    meta = '{"systemPrompt": "Be brief."}'
    assert main(["ask", "--agent", agent, "--quiet", "--meta", meta, "x"]) == 0
    assert json.loads(capsys.readouterr().out) == {"systemPrompt": "Be brief."}


def test_quiet_prints_only_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("--quiet", "echo hi") == 0
    assert capsys.readouterr() == ("hi\n", "")


def test_budget_ends_the_turn_at_a_limit_and_says_what_was_used(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask("--budget", "cost=0.1", "--json", "usage") == 3
    end = events(capsys)[-1]
    assert end["limit"] == {
        "name": "cost", "per": "turn", "spent": 0.25, "allowed": 0.1, "unit": "USD", "reason": ""
    }  # fmt: skip
    assert end["spent"]["cost"] == 0.25
    assert ask("--budget", "cost=0.1", "usage") == 3
    told = capsys.readouterr().err
    assert "accord ask: Limit of the turn reached: 0.25 USD of 0.10 USD\n" in told
    assert "This turn has used about 12,000 tokens, 0.25 USD, " in told
    # Below it, and with a file, whose rules decide what the command line would allow.
    assert ask("--budget", "cost=5", "usage") == 0
    assert "accord ask: this turn has used about 12,000 tokens" in capsys.readouterr().err
    (folder / "limits.toml").write_text('[turn]\ncost = 5\n[deny]\nrules = ["edit"]\n')
    assert ask("--yes", "--budget", "limits.toml", "permission") == 0
    assert "0 of 1 allowed." in capsys.readouterr().out
    assert ask("--yes", "permission") == 0
    assert "1 of 1 allowed." in capsys.readouterr().out


def test_wrong_budget_is_a_usage_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "limits.toml").write_text("[turn]\nprice = 5\n")
    cases = {
        ("--budget", "price=5"): "Error: --budget: Unknown limit 'price': expected tokens, cost,",
        ("--budget", "cost=0"): "Error: --budget: cost=0: expected more than 0",
        ("--budget", "limits.toml"): "Error: --budget: limits.toml: [turn] Unknown limit 'price'",
        ("--budget", "missing.toml"): "Error: --budget: missing.toml: No such file",
        ("--unmetered", "x"): "Error: --unmetered is for --budget",
    }
    for words, expected in cases.items():
        assert ask(*words, "usage") == 2
        assert expected in capsys.readouterr().err
    words = ("--agent", f"{sys.executable} {AGENTS} streams 1", "--budget", "tokens=5")
    assert main(["ask", *words, "Hello"]) == 1
    assert "is not known to report its tokens" in capsys.readouterr().err


@requirement("R-MODE-02", "R-CONF-14")
async def test_mode_and_option_with_the_id_mode_are_both_set() -> None:
    other = {"id": "mode", "category": "thought_level"}
    fast, slow = ({**select(1, value), **other} for value in ("fast", "slow"))
    async with by_hand(1) as (agent, raw):
        session = await with_options(agent, raw, fast, modes=MODES)
        for flags, sent in (
            ({"mode": "Code", "options": []}, "session/set_mode"),
            ({"mode": None, "options": ["session_mode=ask"]}, "session/set_mode"),
            ({"mode": None, "options": ["mode=slow"]}, "session/set_config_option"),
        ):
            work = apply_session_options(session, model=None, **flags)
            request, _ = await answering(raw, work, {"configOptions": [slow]})
            assert request["method"] == sent
