"""ACP agents in agent frameworks, with the real frameworks, in environments of their own.

`install.sh` makes them. What is tested there is in `in_used_*.py`.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
pytestmark = [pytest.mark.programs, pytest.mark.timeout(300)]


@pytest.mark.parametrize("name", ["pydantic_ai", "langgraph", "openai_agents"])
def test_framework_uses_acp_agents(name: str, tmp_path: Path):
    python = HERE / ".venvs" / name / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{name} is not installed: sh {HERE.relative_to(Path.cwd())}/install.sh")
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", HERE, "--noconftest",
         "-p", "no:cacheprovider", "--basetemp", tmp_path / "tests", HERE / f"in_used_{name}.py"],
        cwd=tmp_path, env=os.environ | {"HOME": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
