"""The examples of fleets run: the evaluation, and the cells of the notebook."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from needs import needs
from project import ROOT

EXAMPLES = ROOT / "examples" / "fleet"
REAL = ROOT / "tests" / "interop" / "real" / "node_modules" / ".bin"


Evaluate = Callable[..., str]


@pytest.fixture
def evaluate(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Evaluate:
    """Run the example without the programs of this machine's user; return what it prints."""
    if os.name != "nt":
        folders = (str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin")
        monkeypatch.setenv("PATH", os.pathsep.join(folders))
    monkeypatch.setenv("EXAMPLE_MODEL_KEY", "")  # it sets this one
    monkeypatch.syspath_prepend(EXAMPLES)

    def run(out: Path, *arguments: str) -> str:
        program = str(EXAMPLES / "evaluate.py")
        monkeypatch.setattr(sys, "argv", [program, "--out", str(out), *arguments])
        runpy.run_path(program, run_name="__main__")
        return capfd.readouterr().out

    return run


@needs("accord_coder")
def test_the_evaluation_runs_with_the_bundled_agent_and_reports(
    tmp_path: Path, evaluate: Evaluate
) -> None:
    shown = evaluate(tmp_path / "run", "--tasks", "4", "--jobs", "1")
    assert "100.0 % of 4" in shown
    assert "0.0225 USD" in shown  # as the gateway counted
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.programs
@pytest.mark.timeout(300)
def test_three_agents_have_equal_results_here_and_on_a_cluster(
    tmp_path: Path, evaluate: Evaluate
) -> None:
    ray = shutil.which("ray", path=str(Path(sys.executable).parent))
    found = {
        "claude-agent-acp": (REAL / "claude-agent-acp").exists(),
        "qwen": (REAL / "qwen").exists(),
        "node": shutil.which("node") is not None,
        "ray": ray is not None,
    }
    if missing := [name for name, is_there in found.items() if not is_there]:
        why = f"not installed: {', '.join(missing)}; sh tests/interop/install.sh real"
        if os.environ.get("ACCORD_REQUIRE_RAY"):
            pytest.fail(why)
        pytest.skip(why)
    shown = evaluate(
        *(tmp_path / "run", "--tasks", "4", "--on", "ray", "--jobs", "2", "--bin", str(REAL))
    )
    assert "12 equal results" in shown
    for agent in ("accord", "claude", "qwen"):
        assert f"{agent} " in shown
    assert "without " not in shown


@pytest.mark.slow
@pytest.mark.programs
@pytest.mark.timeout(120)
def test_jupyter_executes_the_notebook(tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=100, resources={"metadata": {"path": tmp_path}}
    ).execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [output.output_type for output in cells[0].outputs] == ["execute_result"]
    [report] = cells[1].outputs
    assert "accord   5 of 10" in report.text
    assert "accord against script: 5 won, 0 lost" in report.text


@needs("accord_coder")
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
