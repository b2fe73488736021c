"""Agents of functions and frameworks with clients of others: the TypeScript SDK's, and acpx.

Each agent answers `hello`, asks before it does `write WORD`, and waits at `wait` until it is
cancelled. Frameworks are in environments that `install.sh frameworks` makes; the clients come with
`tests/interop/install.sh real`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
MODULES = Path("tests/interop").absolute()
SDK = MODULES / "node_modules/@agentclientprotocol/sdk/dist/v1/stable/acp.js"
ACPX = MODULES / "real/node_modules/acpx/dist/cli.js"
NAMES = sorted(file.stem.removesuffix("_agent") for file in (HERE / "clients").glob("*_agent.py"))
pytestmark = [pytest.mark.programs, pytest.mark.timeout(180)]


def command(name: str) -> list[str]:
    """Return the command line of an agent, whose framework is installed."""
    python = (
        HERE / ".venvs" / name / "bin" / "python" if name != "function" else Path(sys.executable)
    )
    if not python.exists():
        pytest.skip(
            f"{name} is not installed: sh {HERE.relative_to(Path.cwd())}/install.sh frameworks"
        )
    return [str(python), "-m", "accord", "run", f"{HERE}/clients/{name}_agent.py:agent"]


def node(program: Path, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of Node.js in a folder, with settings and sessions of its own."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    own = {"HOME": str(folder), "ACCORD_STATE": str(folder / "state")}
    return subprocess.run(
        ["node", program, *words], cwd=folder, env=os.environ | own,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_client_of_the_typescript_sdk(name: str, tmp_path: Path) -> None:
    if not SDK.exists():
        pytest.skip("the TypeScript SDK is not installed: sh tests/interop/install.sh")
    agent = command(name)

    def saw(session: str) -> dict[str, Any]:
        done = node(HERE / "clients/client.mjs", str(SDK), session, *agent, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    first = saw("new")
    assert first["stops"] == [
        "You said hello: end_turn",
        "rejected: end_turn",
        "written: end_turn",
        "waiting: cancelled",
        "You said again: end_turn",
    ]
    assert first["asked"] == ["edit", "edit"]
    assert set(first["kinds"]) == {"edit"}
    assert {"no", "yes"} <= set(first["diffs"])
    assert "completed" in first["statuses"]
    assert (tmp_path / "note.txt").read_text() == "yes"
    replayed = "".join(saw(first["session"])["replayed"])
    for said in ("hello", "You said hello", "write yes", "written", "again"):
        assert said in replayed


@pytest.mark.parametrize("name", NAMES)
def test_acpx(name: str, tmp_path: Path) -> None:
    if not ACPX.exists():
        pytest.skip("acpx is not installed: sh tests/interop/install.sh real")
    agent = " ".join(command(name))

    def acpx(*words: str) -> subprocess.CompletedProcess[str]:
        return node(ACPX, "--agent", agent, *words, folder=tmp_path)

    done = acpx("--format", "quiet", "exec", "hello")
    assert (done.returncode, done.stdout.strip()) == (0, "You said hello"), done.stderr
    done = acpx("--deny-all", "--format", "text", "exec", "write no")
    assert not (tmp_path / "note.txt").exists()
    assert "rejected" in done.stdout
    done = acpx("--approve-all", "--format", "json", "exec", "write yes")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "note.txt").read_text() == "yes"
    updates = [json.loads(line) for line in done.stdout.splitlines()]
    assert any("written" in str(update) for update in updates)
