"""The bridges to evaluators, with the real evaluators, in environments of their own.

`install.sh` makes them. What is tested there is in `in_inspect.py` and `in_harbor.py`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
pytestmark = [pytest.mark.programs, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    "name", ["inspect", "harbor", "agno", "google_adk", "smolagents"]
)
def test_evaluator_runs_acp_agents(name: str, tmp_path: Path):
    python = HERE / ".venvs" / name / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{name} is not installed: sh {HERE.relative_to(Path.cwd())}/install.sh")
    if name == "harbor" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", HERE, "--noconftest",
         "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "--basetemp", tmp_path / "tests", HERE / f"in_{name}.py"],
        cwd=tmp_path, env=os.environ | {"HOME": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
