"""agents.toml: the format that the reference describes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from accord_fleet import AgentSpec, Fleet
from accord_fleet.agent_words import agents_from_words, why_not_startable
from accord_fleet.types import Resources
from project import ROOT

PAGE = ROOT / "docs/reference/fleet.md"


def section() -> str:
    """Return the section about agents."""
    return PAGE.read_text("utf-8").partition("## Agents\n")[2].partition("\n## ")[0]


def test_example_of_the_reference_is_read(tmp_path: Path) -> None:
    [example] = re.findall(r"```toml\n(.*?)```", section(), re.DOTALL)
    path = tmp_path / "agents.toml"
    path.write_text(example, "utf-8")
    assert agents_from_words([str(path)]) == (
        [
            AgentSpec(name="claude", command=("claude-agent-acp",), provider="anthropic"),
            AgentSpec(
                name="mine",
                command=("my-agent", "--acp"),
                env={"MY_AGENT_LOG": "debug"},
                secrets=("MY_AGENT_KEY",),
                packages=("my-agent==1.4",),
                resources=Resources(cpus=2.0, memory_bytes=4_000_000_000, custom={"gpu_lane": 1.0}),
                versions=(1,),
                warm=False,
            ),
        ],
        [],
    )


def test_reference_has_every_field() -> None:
    documented = re.findall(r"^\| `(\w+)` \|", section(), re.MULTILINE)
    assert documented == [name for name in AgentSpec.__struct_fields__ if name != "name"]


def test_error_names_the_agent_and_the_field(tmp_path: Path) -> None:
    path = tmp_path / "agents.toml"
    path.write_text('[agents.mine]\ncommand = "my-agent"\nkey = "x"\n', "utf-8")
    found, [error] = agents_from_words([str(path)])
    assert found == []
    assert "[agents.mine]" in error
    assert error.endswith("[agents.mine]: key: unknown field")


@pytest.mark.parametrize(
    ("word", "part"),
    [
        ("a/b=cmd", "got 'a/b'"),
        ("=cmd", "got ''"),
        ("x=", "the command of x is missing"),
        ("", "got nothing"),
        ("x='y", "No closing quotation"),
        ("nowhere.toml", "expected a file with agents: No such file"),
        ("\u202ea=b", "\\u202ea=b"),
    ],
)
def test_bad_words_are_errors_that_say_what_was_expected(word: str, part: str) -> None:
    found, [error] = agents_from_words([word])
    assert found == []
    assert part in error
    assert "\u202e" not in error


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('[agents."a/b"]\ncommand = "x"', ["[agents.a/b]: expected a name of letters"]),
        ("[agents.a]\ncommand = []", ["[agents.a]: command: expected a command, got nothing"]),
        ('[agents.a]\nname = "b"\ncommand = "x"', ["[agents.a]: name: unknown field"]),
        (
            "[agents.a]\ncommand = 7\n[agents.b]\ncomand = 'x'",
            ["[agents.a]: command: expected array, got 7", "the closest is 'command'"],
        ),
        ("agents = 3", ["expected tables [agents.NAME]"]),
        ("[agents.a", ["expected TOML"]),
    ],
)
def test_all_that_is_wrong_with_a_file_is_said(tmp_path: Path, text: str, parts: list[str]) -> None:
    path = tmp_path / "agents.toml"
    path.write_text(text, "utf-8")
    found, [error] = agents_from_words([str(path)])
    assert found == []
    assert all(part in error for part in parts), error


def test_a_program_with_an_equals_sign_in_its_path_is_a_command(tmp_path: Path) -> None:
    program = tmp_path / "a=b"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    [found], errors = agents_from_words([f"{program} --acp"])
    assert (found.command, errors) == ((str(program), "--acp"), [])


def test_a_misspelt_program_has_a_hint() -> None:
    agent = AgentSpec(name="x", command=("clauda",))
    assert (why_not_startable(agent, "local") or "").endswith("`accord agents` has 'claude'")


def test_files_that_a_command_names_are_found_from_where_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Agents start in a folder of their own.
    for name in ("agent.py", "run", "acp"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o700)
    monkeypatch.chdir(tmp_path)
    found, errors = agents_from_words(["python agent.py other.py acp", "x=./run agent.py"])
    assert errors == []
    agent = str(tmp_path / "agent.py")
    assert [spec.command for spec in found] == [
        ("python", agent, "other.py", "acp"),
        (str(tmp_path / "run"), agent),
    ]
    assert Fleet(["python agent.py"]).agents[0].command == ("python", agent)
    path = tmp_path / "agents.toml"
    path.write_text('[agents.a]\ncommand = "./run --x"\n', "utf-8")
    monkeypatch.chdir("/")
    [spec], errors = agents_from_words([str(path)])
    assert (spec.command, errors) == ((str(tmp_path / "run"), "--x"), [])
