"""`accord compare`: worktrees, results side by side, and what is left behind."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from rich.console import Console

from accord_terminal.sessions.compare import Attempt, show_attempts
from sessions_named.machine import Machine, eventually

pytestmark = pytest.mark.slow

AGENTS = ("--agent", "script", "--agent", "script")


@pytest.fixture
def repository(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Path:
    temporary = machine.base / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (machine.work / "a.txt").write_text("one\n")
    _git(machine.work, "init", "--quiet")
    _git(machine.work, "add", ".")
    _git(machine.work, "-c", "user.name=A", "-c", "user.email=a@b.c", "commit", "-qm", "First")
    return machine.work


def _git(cwd: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=cwd, check=True, capture_output=True, text=True
    ).stdout


def left(machine: Machine) -> list[str]:
    worktrees = _git(machine.work, "worktree", "list").splitlines()[1:]
    return worktrees + os.listdir(machine.base / "tmp")  # noqa: PTH208  # names


def has_worktrees(repository: Path, count: int) -> bool:
    listed = subprocess.run(
        ["git", "worktree", "list"], cwd=repository, check=False, capture_output=True
    )
    # git fails while one is being added.
    return listed.returncode == 0 and len(listed.stdout.splitlines()) == count + 1


def test_each_agent_has_its_own_worktree(machine: Machine, repository: Path) -> None:
    said = machine.ok("compare", "fs write b.txt Hello", *AGENTS, "--yes", "--json")
    result = json.loads(said)
    assert result["base"] == _git(repository, "rev-parse", "HEAD").strip()
    first, second = result["attempts"]
    assert (first["agent"], second["agent"]) == ("script", "script 2")
    for attempt in (first, second):
        assert attempt["stopReason"] == "end_turn"
        assert attempt["text"] == "b.txt is written."
        assert attempt["files"] == [{"path": "b.txt", "added": 1, "removed": 0}]
        assert "+Hello\n" in attempt["diff"]
        assert attempt["seconds"] > 0
    assert not (repository / "b.txt").exists()
    assert left(machine) == []


def test_cost_is_shown_side_by_side(machine: Machine, repository: Path) -> None:
    shown = machine.ok("compare", "usage", *AGENTS)
    (line,) = [line for line in shown.splitlines() if line.startswith("cost")]
    _, left_cost, right_cost = line.replace(" USD", "").split()
    assert float(left_cost) == float(right_cost) > 0


@pytest.mark.parametrize("width", [80, 50])
def test_answers_and_diffs_are_side_by_side_if_there_is_space(width: int) -> None:
    attempts = [
        Attempt(agent=name, stop_reason="end_turn", seconds=1.5, text=text, diff=f"+{text}\n")
        for name, text in (("one", "First"), ("other", "Second"))
    ]
    shown = io.StringIO()
    show_attempts(attempts, Console(file=shown, width=width))
    lines = [line.split() for line in shown.getvalue().splitlines()]
    assert ["time", "1.5", "s", "1.5", "s"] in lines
    assert (["First", "Second"] in lines) == (["+First", "+Second"] in lines) == (width == 80)
    assert (["First"] in lines) == (["+Second"] in lines) == (width == 50)


def test_worktrees_are_kept_on_request(machine: Machine, repository: Path) -> None:
    said = machine.ok("compare", "fs write b.txt Hello", *AGENTS, "--yes", "--json", "--keep")
    for attempt in json.loads(said)["attempts"]:
        assert (Path(attempt["worktree"]) / "b.txt").read_text() == "Hello\n"
    assert len(_git(repository, "worktree", "list").splitlines()) == 3


def test_exit_status(machine: Machine, repository: Path) -> None:
    for prompt, options, status, rejected in (
        ("error", (), 1, [0, 0]),
        ("wait forever", ("--timeout", "0.3"), 3, [0, 0]),
        ("permission", (), 0, [1, 1]),
    ):
        ended = machine.run("compare", prompt, *AGENTS, *options, "--json")
        assert ended.returncode == status, prompt
        attempts = json.loads(ended.stdout)["attempts"]
        assert [len(each["rejected"]) for each in attempts] == rejected, prompt
        assert left(machine) == [], prompt


def test_interrupt_removes_the_worktrees(machine: Machine, repository: Path) -> None:
    running = machine.start("compare", "wait forever", *AGENTS)
    eventually(lambda: has_worktrees(repository, 2))
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=30)
    assert running.returncode == 130
    assert left(machine) == []


def test_interrupt_removes_a_worktree_that_git_has_not_finished(
    machine: Machine, repository: Path
) -> None:
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.write_text("#!/bin/sh\ntouch ../hook\nsleep 2\n")
    hook.chmod(0o755)
    running = machine.start("compare", "wait forever", *AGENTS)
    eventually(lambda: [*(machine.base / "tmp").glob("*/hook")])
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=30)
    assert running.returncode == 130
    assert left(machine) == []


def test_directory_without_repository_is_a_usage_error(machine: Machine) -> None:
    ended = machine.run("compare", "echo", *AGENTS)
    assert ended.returncode == 2
    assert "git repository" in ended.stderr


def test_uncommitted_changes_are_reported(machine: Machine, repository: Path) -> None:
    (repository / "a.txt").write_text("two\n")
    ended = machine.run("compare", "fs read a.txt", *AGENTS, "--json")
    assert "do not see uncommitted changes" in ended.stderr
    assert (repository / "a.txt").read_text() == "two\n"


def test_agents_are_kept_within_a_budget(machine: Machine, repository: Path) -> None:
    done = machine.run("compare", "usage", *AGENTS, "--budget", "cost=0.1", "--json")
    assert done.returncode == 3
    attempts = json.loads(done.stdout)["attempts"]
    said = "Limit of the turn reached: 0.25 USD of 0.10 USD"
    assert [attempt["limit"] for attempt in attempts] == [said, said]
