"""The options for sandboxes and providers: what they mean, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from accord_fleet.command.commands import guard_options
from accord_fleet.command.run_fleet import (
    GuardOptions,
    isolation_lines,
    limits_from_words,
    words_of_budget,
)
from accord_fleet.sandbox.bubblewrap import open_sandbox
from accord_fleet.sandbox.settings import SandboxError, SandboxSettings
from accord_fleet.types import AgentSpec
from fleet.sandboxes import NEEDS_SANDBOX

AGENT = AgentSpec(name="a", command=("a",))


def parsed(*words: str) -> GuardOptions:
    found: list[GuardOptions] = []

    @click.command()
    @guard_options
    def command(**given: Any) -> None:
        found.append(GuardOptions(**given))

    done = CliRunner().invoke(command, words)
    assert done.exit_code == 0, done.output
    return found[0]


def test_sandbox_without_a_value_leads_to_the_models_only() -> None:
    assert parsed().sandbox == "off"
    options = parsed("--sandbox-allow", "a.example", "--sandbox-read", "/etc/x", "--sandbox")
    assert options.sandbox == "models"
    assert options.allow_hosts == ("a.example",)
    assert parsed("--sandbox", "no-network").sandbox == "no-network"


def test_everything_that_is_wrong_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "providers.toml"
    file.write_text("[x]\n")
    options = GuardOptions(sandbox="no-network", allow_hosts=("a.example",), providers=file)
    _, _, errors = options.settings([AGENT], is_local=False)
    assert len(errors) == 2
    assert "in the sandbox `models` only" in errors[0]
    assert "[x]: Object missing required field" in errors[1]
    _, _, errors = GuardOptions(read=("/x",)).settings([AGENT], is_local=True)
    assert errors == ["--sandbox-read needs --sandbox"]


def test_agent_at_a_url_cannot_be_in_the_sandbox() -> None:
    agents = [AGENT, AgentSpec(name="far", command=("wss://agents.example/acp",))]
    _, _, errors = GuardOptions(sandbox="models").settings(agents, is_local=False)
    assert errors == [
        "The sandbox cannot isolate far, which runs elsewhere: wss://agents.example/acp"
    ]
    assert GuardOptions().settings(agents, is_local=False)[2] == []


def test_paths_that_cannot_be_shown_are_all_reported(tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    link = tmp_path / "link"
    link.symlink_to("/")
    fine = tmp_path / "fine"
    fine.mkdir()
    read = (
        "/missing-folder",
        "/",
        "~/not-a-folder-of-anyone",
        str(link),
        str(out),
        str(tmp_path),
        str(fine),
    )
    options = GuardOptions(sandbox="models", read=read)
    _, _, errors = options.settings([AGENT], is_local=True, out=str(out))
    errors = [error for error in errors if "cannot show" in error]
    assert [error.rpartition(": ")[2] for error in errors] == [
        "it does not exist",
        "it contains the workspaces",
        "it does not exist",
        "it contains the workspaces",
        "it leads to the results of the run",
        "it leads to the results of the run",
    ]
    assert options.settings([AGENT], is_local=False, out=str(out))[2] == []
    relative = GuardOptions(sandbox="network", read=("x", "y"), allow_hosts=("a b",))
    assert len(relative.settings([AGENT], is_local=False)[2]) == 4


@NEEDS_SANDBOX
async def test_sandbox_with_a_missing_path_is_not_opened() -> None:
    settings = SandboxSettings(mode="models", read=("/missing-folder", "/"))
    with pytest.raises(SandboxError, match=r"(?s)not exist.*contains the workspaces"):
        async with open_sandbox(settings):
            pass


def test_missing_key_of_an_agent_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MISTRAL_API_KEY", raising=False)
    agent = AgentSpec(name="a", command=("a",), provider="mistral")
    _, _, errors = GuardOptions().settings([agent], is_local=True)
    assert "environment variable MISTRAL_API_KEY, which is not set" in errors[0]
    assert GuardOptions().settings([agent], is_local=False)[2] == []


def test_paths_in_the_home_are_those_of_each_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    options = GuardOptions(sandbox="models", read=("/home/u/.agent/login", "/opt/x"))
    sandbox, _, _ = options.settings([AGENT], is_local=False)
    assert sandbox is not None
    assert sandbox.read == ("~/.agent/login", "/opt/x")


def test_run_without_a_sandbox_says_so() -> None:
    assert "There is no sandbox" in isolation_lines(None, is_local=True)[0]


@NEEDS_SANDBOX
def test_run_with_a_sandbox_says_what_holds() -> None:
    settings = SandboxSettings(mode="models", allow_hosts=("a.example",))
    for is_local in (True, False):
        first, limits, *_ = isolation_lines(settings, is_local=is_local)
        assert "network: the model gateway, a.example only." in first
        assert "cgroups" in limits
        assert limits.endswith("Processors are not limited.")


def test_budget_is_the_limits_of_each_attempt() -> None:
    words = words_of_budget("cost=2, tokens=200k/session, time=10m, time=1h/session")
    assert words == ["cost=2", "turn_s=600", "tokens=200000", "wall_s=3600"]
    found, errors = limits_from_words(words)
    assert (found, errors) == (
        {"cost": 2, "turn_s": 600, "tokens": 200_000, "wall_s": 3600}, []
    )  # fmt: skip
    assert words_of_budget(None) == []
    assert words_of_budget("files=3, tools=1k/session") == ["changed_files=3", "tool_calls=1000"]
    for text in ("files=3/day", "cost=2/day", "cost=2 EUR"):
        with pytest.raises(ValueError, match="expected"):
            words_of_budget(text)
