"""Temporary folders of runs whose process was killed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from accord_fleet import Fleet
from accord_fleet.command.run_fleet import RunOptions, run_fleet
from accord_fleet.scratch import remove_abandoned, scratch_folder
from fleet.running import RAW, raw, task

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the process is killed by a signal")
KILLED = """
import os, signal
from accord_fleet.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "w1").mkdir()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the folder for temporary files be one of the test."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def leave_folder(folder: Path) -> None:
    """Let a process be killed that has a temporary folder."""
    program = folder / "killed.py"
    program.write_text(KILLED)
    done = subprocess.run([sys.executable, str(program)], check=False, timeout=30)
    assert done.returncode == -9


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_folder_is_removed_after_the_block(temporary: Path) -> None:
    with scratch_folder() as folder:
        assert (folder.parent, folder.is_dir()) == (temporary, True)
        (folder / "file").touch()
    assert names(temporary) == set()


async def run_from_python(folder: Path) -> None:
    async for done in Fleet([raw()]).run([task("say hi")]):
        assert done.answer == "hi"


async def run_from_the_command_line(folder: Path) -> None:
    tasks = folder / "tasks.jsonl"
    tasks.write_text('{"id": "t1", "prompts": ["say hi"]}\n')
    agent, out = f"raw={shlex.join(RAW)}", str(folder / "run")
    options = RunOptions(tasks=str(tasks), agents=[agent], out=out, jobs=1, as_json=True)
    assert await run_fleet(options) == 0


@pytest.mark.parametrize("run", [run_from_python, run_from_the_command_line])
async def test_a_run_removes_what_killed_processes_have_left(
    temporary: Path, run: Callable[[Path], Awaitable[None]]
) -> None:
    leave_folder(temporary.parent)
    assert len(names(temporary)) == 2
    (temporary / "accord-fleet-unlocked").mkdir()  # of another program, or being made now
    with scratch_folder() as used:
        await run(temporary.parent)
        left = names(temporary)
    assert left == {used.name, f"{used.name}.lock", "accord-fleet-unlocked"}


def test_files_of_other_users_and_links_stay(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_folder(temporary.parent)
    before = sorted(temporary.iterdir())
    with monkeypatch.context() as other:
        other.setattr(os, "getuid", lambda: os.geteuid() + 1)
        remove_abandoned()
    assert sorted(temporary.iterdir()) == before
    precious = temporary / "precious"
    before[0].rename(precious)
    before[0].symlink_to(precious)
    remove_abandoned()
    assert (precious / "w1").is_dir()
