"""The instructions that models receive first."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from accord import SystemPrompt
from accord_coder.instructions import MAX_BYTES, instruction_files
from accord_coder.settings import Settings
from coder.harness import BOTH, CoderHarness, coder_session, scripted
from coder.scripted_model import ScriptedModel


def instructions_of(harness: CoderHarness) -> str:
    assert isinstance(harness.model, ScriptedModel)
    return harness.model.requests[-1].instructions


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "repository" / "part"
    folder.mkdir(parents=True)
    (tmp_path / "repository" / ".git").mkdir()
    (tmp_path / "AGENTS.md").write_text("from above")
    (tmp_path / "repository" / "AGENTS.md").write_text("from the root")
    (folder / "AGENTS.md").write_text("from the part")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "AGENTS.md").write_text("from the user")
    return folder


async def test_instruction_files_of_user_and_repository_are_included(project: Path) -> None:
    settings = Settings(config=project.parent.parent / "config")
    async with scripted(project, settings=settings) as harness:
        await harness.prompt("hello")
        text = instructions_of(harness)
        places = [text.index(f"from the {name}") for name in ("user", "root", "part")]
        assert places == sorted(places)
        assert "from above" not in text
        (project / "AGENTS.md").write_text("it has changed")
        await harness.prompt("hello")
        assert "it has changed" in instructions_of(harness)


async def test_mode_and_directory_are_included(tmp_path: Path) -> None:
    async with scripted(tmp_path, settings=Settings(mode="plan")) as harness:
        await harness.prompt("hello")
        assert "plan mode" in instructions_of(harness)
        assert str(tmp_path) in instructions_of(harness)
        await harness.session.set_option("mode", "default")
        await harness.prompt("hello")
        assert "plan mode" not in instructions_of(harness)


def test_without_a_repository_only_the_directory_counts(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("above")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "AGENTS.md").write_text("here")
    assert [text for _, text in instruction_files(str(tmp_path / "a"))] == ["here"]


def test_long_file_is_truncated(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("é" * MAX_BYTES)
    ((_, text),) = instruction_files(str(tmp_path))
    assert len(text.encode()) < MAX_BYTES + 200
    assert "cut here" in text


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_link_out_of_the_repository_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    project = tmp_path / "project"
    project.mkdir()
    (project / "AGENTS.md").symlink_to(tmp_path / "secret")
    assert instruction_files(str(project)) == []
    (project / "AGENTS.md").unlink()
    (project / ".env").write_text("x")
    (project / "AGENTS.md").symlink_to(".env")
    assert instruction_files(str(project)) == []


@BOTH
@pytest.mark.parametrize("mode", ["append", "override"])
async def test_client_can_append_or_replace_the_system_prompt(
    version: int, mode: str, tmp_path: Path
) -> None:
    (tmp_path / "AGENTS.md").write_text("from here")
    model = ScriptedModel()
    async with coder_session(version, cwd=tmp_path, model=model, unstable=True) as harness:
        prompt = SystemPrompt(("Speak in rhymes.",), mode)
        session = await harness.agent.new_session(tmp_path, system_prompt=prompt)
        async with session.prompt("hello") as turn:
            await turn.wait()
        text = model.requests[-1].instructions
        assert "Speak in rhymes." in text
        assert "from here" in text
        assert ("coding agent" in text) is (mode == "append")
