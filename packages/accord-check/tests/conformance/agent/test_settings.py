"""The settings file of the kit: valid contents, and errors."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from accord_conformance.agent.settings import (
    PROMPTS,
    InvalidSettings,
    Settings,
    read_settings,
    template,
)
from conformance.agent.filtered_agent import EXAMPLES


def written(folder: Path, text: str) -> Path:
    file = folder / "accord-check.toml"
    file.write_text(text, "utf-8")
    return file


def test_template_equals_the_defaults(tmp_path: Path) -> None:
    settings = read_settings(written(tmp_path, template()))
    assert settings.prompts == {purpose: words for purpose, (_, words) in PROMPTS.items()}
    assert (settings.timeout, settings.answer) == (Settings().timeout, Settings().answer)
    assert settings.command == []


def test_comments_of_the_template_are_valid_settings(tmp_path: Path) -> None:
    lines = template().splitlines()
    text = "\n".join(line.removeprefix("# ") if " = " in line else line for line in lines)
    settings = read_settings(written(tmp_path, text))
    assert settings.command
    assert settings.login
    assert settings.env
    assert settings.skip


def test_default_prompts_work_for_any_agent() -> None:
    settings = Settings(prompts={"text": "echo", "tool": ""})
    assert settings.prompt("text") == "echo"
    assert settings.prompt("tool") == ""
    assert settings.prompt("long") == PROMPTS["long"][1]


def test_area_and_scenario_can_be_skipped() -> None:
    settings = Settings(skip={"mcp": "none here", "login/logout": "no login"})
    assert settings.skipped("mcp/stdio") == "none here"
    assert settings.skipped("login/logout") == "no login"
    assert settings.skipped("login/unknown") is None


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("prompts = 5", "prompts"),
        ("[prompts]\ndance = 'x'", "dance"),
        ("colour = 1", "colour"),
        ("timeout = 0", "timeout"),
        ("answer = nan", "answer"),
        ("= 5", "line 1"),
    ],
)
def test_invalid_settings_are_an_error_with_the_reason(
    tmp_path: Path, text: str, reported: str
) -> None:
    with pytest.raises(InvalidSettings, match=reported):
        read_settings(written(tmp_path, text))


def test_missing_settings_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match=r"none\.toml"):
        read_settings(tmp_path / "none.toml")


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.toml")), ids=lambda file: file.stem)
def test_examples_are_valid_settings(file: Path) -> None:
    assert read_settings(file).command[0] == "accord"
    assert tomllib.loads(file.read_text("utf-8"))["prompts"]
