"""The bridges to frameworks and evaluators, with the real ones, in environments of their own.

`install.sh` makes the environments; what is tested in `.venvs/NAME` is in `in_NAME.py`, and in
`in_used_NAME.py` for ACP agents in a framework.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NAMES = sorted(file.stem.removeprefix("in_") for file in HERE.glob("in_*.py"))
NAMES.remove("harbor_environment")  # used by in_harbor.py
pytestmark = [pytest.mark.programs, pytest.mark.timeout(900)]


@pytest.mark.parametrize("name", NAMES)
def test_bridge_with_the_real_framework(name: str, tmp_path: Path):
    environment = name.removeprefix("used_")
    python = HERE / ".venvs" / environment / "bin" / "python"
    if not python.exists():
        install = f"sh {HERE.relative_to(Path.cwd())}/install.sh"
        pytest.skip(f"{environment} is not installed: {install} frameworks")
    if name == "harbor" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", HERE, "--noconftest",
         "-o", "asyncio_mode=auto", "-p", "no:cacheprovider", "--basetemp", tmp_path / "tests",
         HERE / f"in_{name}.py"],
        cwd=tmp_path, env=os.environ | {"HOME": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
