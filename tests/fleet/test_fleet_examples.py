"""The examples of fleets run: the evaluation, and the cells of the notebook."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples" / "fleet"
REAL = ROOT / "tests" / "interop" / ".venvs"


def evaluated(out: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "evaluate.py"), "--out", str(out), *arguments],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_evaluation_runs_with_the_bundled_agent_and_reports(tmp_path: Path) -> None:
    shown = evaluated(tmp_path / "run", "--tasks", "4", "--jobs", "1", "--bin", str(tmp_path))
    assert "accord" in shown
    assert "50.0 % of 4" in shown
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.programs
@pytest.mark.timeout(300)
def test_three_agents_have_equal_results_here_and_on_a_cluster(tmp_path: Path) -> None:
    missing = [
        why
        for why, is_missing in {
            "fast-agent is not installed": not (REAL / "fast-agent" / "bin").exists(),
            "minion is not installed": not (REAL / "minion" / "bin").exists(),
            "Ray is not installed": not shutil.which("ray", path=str(Path(sys.executable).parent)),
        }.items()
        if is_missing
    ]
    if missing:
        if os.environ.get("ACCORD_REQUIRE_RAY"):
            pytest.fail(", ".join(missing))
        pytest.skip(", ".join(missing))
    folders = [
        part for name in ("fast-agent", "minion") for part in ("--bin", str(REAL / name / "bin"))
    ]
    shown = evaluated(tmp_path / "run", "--tasks", "6", "--on", "ray", "--jobs", "4", *folders)
    assert "18 equal results" in shown


async def test_the_cells_of_the_notebook_run(capsys: pytest.CaptureFixture[str]) -> None:
    notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text("utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == []
        source = "".join(cell["source"])
        code = compile(source, f"cell {cell['id']}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        async with asyncio.timeout(50):
            value = eval(code, names)  # noqa: S307  # as a notebook does
            if inspect.isawaitable(value):
                await value
    shown = capsys.readouterr().out
    assert "accord   5 of 10" in shown
    assert "script   0 of 10" in shown
    assert "accord against script: 5 won, 0 lost" in shown
