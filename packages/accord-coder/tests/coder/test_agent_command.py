"""`accord agent`: the agent that it serves, its settings, and usage errors."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from accord import AuthRequired, RequestError, connect
from accord.program import main
from versions import only

AGENT = [sys.executable, "-m", "accord", "agent"]
USAGE = "usage: accord agent [coder|script] [OPTIONS]\n"


def run(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*AGENT, *arguments], input="", capture_output=True, text=True, timeout=50, **more
    )


def test_invalid_command_line_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, why in (
        (("dancer",), "unknown agent 'dancer': expected one of coder, script"),
        (("script", "more"), "unexpected argument 'more'"),
        (("--fast",), "unexpected argument '--fast'"),
        (("-x",), "unexpected argument '-x'"),
        (("--model",), "--model requires a value"),
        (("--model=",), "--model requires a value"),
        (("--model", "gpt"), "--model must be `PROVIDER:NAME`, `local` or `demo`, not 'gpt'"),
        (
            ("--model", "compatible:x"),
            "a model `compatible:NAME` requires --base-url URL, the address of its server",
        ),
        (("--base-url", "here"), "--base-url must begin with http:// or https://, got 'here'"),
        (
            ("--model", "demo", "--base-url", "http://localhost:1"),
            "--base-url is for models of providers and servers; `demo` does not use a server",
        ),
        (("--max-requests", "0"), "--max-requests must be a number of at least 1, got '0'"),
        (("--max-requests=many",), "--max-requests must be a number of at least 1, got 'many'"),
        (("--fetch=no",), "--fetch takes no value"),
        (("script", "--fetch"), "the script agent has no option --fetch"),
        (
            ("--mode", "bypassPermissions"),
            "the mode bypassPermissions also requires --bypass-permissions",
        ),
        (
            ("--mode", "wild"),
            "unknown mode 'wild': expected one of"
            " default, acceptEdits, plan, dontAsk, bypassPermissions",
        ),
    ):
        assert main(["agent", *arguments]) == 2, arguments
        assert capsys.readouterr() == ("", f"{USAGE}accord agent: {why}\n"), arguments


def test_base_url_without_a_model_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ACCORD_MODEL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "k")  # must not be sent to another server
    monkeypatch.setattr("accord_coder.settings.config_dir", lambda: tmp_path)
    assert main(["agent", "--base-url", "http://localhost:11434/v1"]) == 2
    said = capsys.readouterr().err
    assert "--base-url requires a model: add --model PROVIDER:NAME" in said
    assert "ACCORD_MODEL" in said


def test_agent_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "-h"]) == 0
    said = capsys.readouterr().out
    assert main(["agent", "--help"]) == 0
    assert capsys.readouterr().out == said
    assert said.startswith(USAGE)
    for name in ("--model", "--base-url", "--mode", "--data", "--max-requests", "--login"):
        assert name in said


def test_agent_exits_when_its_client_disconnects() -> None:
    for name in ((), ("coder",), ("script",)):
        done = run(*name)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), name


async def options_of(*arguments: str, cwd: Path, version: int) -> tuple[str, dict[str, Any]]:
    """Return the name of the agent and the options of its sessions."""
    async with (
        asyncio.timeout(50),
        connect([*AGENT, *arguments], versions=only(version)) as agent,
    ):
        session = await agent.new_session(cwd)
        return agent.info.name, {option.id: option for option in session.transcript.options}


@pytest.mark.parametrize("version", [1, 2])
async def test_coder_is_the_default_and_takes_its_settings(version: int, tmp_path: Path) -> None:
    data = tmp_path / "data"
    name, options = await options_of(
        "--mode=plan", "--model", "demo", "--data", str(data), cwd=tmp_path, version=version
    )
    assert name == "accord-coder"
    assert options["mode"].value == "plan"
    assert "bypassPermissions" not in [choice.value for choice in options["mode"].choices]
    assert options["model"].value == "demo"
    assert (data / "sessions.sqlite").exists()
    if sys.platform != "win32":
        assert data.stat().st_mode & 0o777 == 0o700


async def test_mode_without_questions_requires_its_flag(tmp_path: Path) -> None:
    _, options = await options_of("--bypass-permissions", cwd=tmp_path, version=2)
    assert options["mode"].value == "default"
    assert "bypassPermissions" in [choice.value for choice in options["mode"].choices]


async def test_missing_key_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(RequestError) as caught:
        await options_of("--model", "anthropic:some", cwd=tmp_path, version=1)
    assert isinstance(caught.value, AuthRequired)
    assert "ANTHROPIC_API_KEY" in caught.value.message
    assert "accord agent --login anthropic" in caught.value.message


def test_login_accepts_only_known_providers() -> None:
    done = run("--login", "nobody")
    assert done.returncode == 1
    assert "unknown provider" in done.stderr
