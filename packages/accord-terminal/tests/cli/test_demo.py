"""`accord ask` with the demonstration model: `make demo`, and a prompt that is not a command."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from needs import needs
from project import ROOT

pytestmark = needs("accord_coder")


def test_demo_runs_a_turn_and_leaves_the_folder_unchanged(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = tmp_path_factory.mktemp("data")
    recipe = re.search(r"^demo:.*\n\t\$\(BIN\)/accord (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert recipe is not None
    shutil.copy(ROOT / "README.md", tmp_path)
    before = (tmp_path / "README.md").read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "accord", *shlex.split(recipe[1])],
        cwd=tmp_path,
        env={**os.environ, "ACCORD_MODEL": "demo", "ACCORD_DATA": str(data)},
        capture_output=True,
        encoding="utf-8",
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    assert "`README.md` has" in done.stdout
    plan = ("read README.md", "replace demo.txt hello", "delete demo.txt")
    diffs = ("1 + hello", "1 - hello", "1 + hello, world", "1 - hello, world")
    for part in (*plan, *diffs, "Read README.md", "cat demo.txt", "│ hello, world"):
        assert part in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    assert (tmp_path / "README.md").read_bytes() == before


@pytest.mark.parametrize("options", [["--quiet"], ["--json", "--protocol", "1"]])
def test_prompt_that_the_demonstration_model_does_not_understand_exits_with_status_1(
    options: list[str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = tmp_path_factory.mktemp("data")
    done = subprocess.run(
        [sys.executable, "-m", "accord", "ask", "fnd", *options],
        cwd=tmp_path,
        env={**os.environ, "ACCORD_MODEL": "demo", "ACCORD_DATA": str(data)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=50,
    )
    assert done.returncode == 1, done.stderr
    assert "`fnd` is not a command of the demonstration model. Did you mean `find`?" in done.stderr
    if "--quiet" not in options:
        assert "List a directory" in done.stdout


def test_ask_without_agent_uses_the_coder(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\n")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "accord", "ask", "read notes.txt"],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    assert "notes.txt" in done.stdout + done.stderr
