"""A run becomes a job of Harbor, and a job a run; `in_inspect.py` does so with inspect-ai."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from accord_fleet.command import command
from accord_fleet.dataset.dataset import Dataset
from accord_fleet.dataset.writer import DatasetWriter
from accord_fleet.types import Failure, Result, Verdict
from fleet.sample_runs import result, sample_plan, tasks
from project import ROOT

HARBOR = ROOT / "packages/accord-bridges/tests/bridges/.venvs/harbor/bin/python"
READ = """
import json, pathlib, sys
from harbor.models.trajectories import Trajectory
from harbor.viewer.scanner import JobScanner
jobs = pathlib.Path(sys.argv[1])
scanner = JobScanner(jobs)
job = scanner.get_job_result("job")
assert scanner.get_job_config("job").n_attempts == 2
for name in scanner.list_trials("job"):
    assert scanner.get_trial_config("job", name)
    trial = scanner.get_trial_result("job", name)
    path = jobs / "job" / name / "agent" / "trajectory.json"
    Trajectory.model_validate(json.loads(path.read_text()))
    print(name, trial.verifier_result and trial.verifier_result.rewards["reward"])
print(job.stats.n_completed_trials, job.stats.n_errored_trials)
"""


def called(*words: object, status: int = 0) -> str:
    done = CliRunner().invoke(command, list(map(str, words)), standalone_mode=True)
    assert done.exit_code == status, done.output
    return done.output


def rows(run: Path) -> dict[tuple[str, str, int], Result]:
    found = (msgspec.structs.replace(one, trace=None) for one in Dataset.open(run).results())
    return {one.key: one for one in found}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    made = [result(task, attempt=number) for task in range(3) for number in (1, 2)]
    replace = msgspec.structs.replace
    made[0] = replace(made[0], status="limit", verdict=None, failure=Failure(limit="wall_s"))
    made[1] = replace(made[1], verdict=Verdict(error="no pytest"))
    made[2] = replace(made[2], status="failed", verdict=None, failure=Failure(where="start"))
    plan = sample_plan(3, attempts=2)

    async def write() -> None:
        async with await DatasetWriter.create(tmp_path / "RUN", plan, tasks(3)) as writer:
            for one in made:
                await writer.append(one)

    asyncio.run(write())
    return tmp_path / "RUN"


def test_run_survives_a_job_of_harbor(run: Path, tmp_path: Path):
    called("export", run, "--to", "harbor", "--out", tmp_path / "jobs" / "job")
    called("import", tmp_path / "jobs" / "job", "--out", tmp_path / "AGAIN")
    assert rows(tmp_path / "AGAIN") == rows(run)
    assert "has files" in called(
        "export", run, "--to", "harbor", "--out", tmp_path / "jobs", status=1
    )
    resumed = called("resume", tmp_path / "AGAIN", status=1)
    assert "a log cannot be resumed" in resumed


@pytest.mark.programs
def test_harbor_reads_an_exported_job(run: Path, tmp_path: Path):
    if not HARBOR.exists():
        pytest.skip("Harbor is not installed: sh packages/accord-bridges/tests/bridges/install.sh")
    called("export", run, "--to", "harbor", "--out", tmp_path / "jobs" / "job")
    said = subprocess.run(
        [HARBOR, "-c", READ, tmp_path / "jobs"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert said[-1] == "6 3"
    assert said[0] == "t0__a-1 None"
    assert said[3] == "t1__a-2 0.1"


def trial(job: Path, name: str, rewards: Any, **more: object) -> None:
    folder = job / name
    folder.mkdir(parents=True)
    about: Mapping[str, Any] = {
        "task_name": name.partition("__")[0],
        "agent_info": {"name": "claude-code", "model_info": {"name": "opus"}},
        "agent_result": {"n_input_tokens": 7, "cost_usd": 0.5},
        "verifier_result": {"rewards": rewards},
        "started_at": "2026-11-01T10:00:00Z",
        "finished_at": "2026-11-01T10:00:09Z",
        **more,
    }
    (folder / "result.json").write_text(json.dumps(about))


def failed(kind: str) -> dict[str, str]:
    return {"exception_type": kind, "exception_message": "so"}


def test_no_trial_of_a_job_is_left_out(tmp_path: Path):
    job = tmp_path / "job"
    trial(job, "good__1", {"reward": 1})
    trial(job, "nan__1", {"reward": float("nan"), "other": 2})
    trial(job, "none__1", None)
    trial(job, "slow__1", {"reward": 0}, exception_info=failed("AgentTimeoutError"))
    trial(job, "stop__1", None, exception_info=failed("CancelledError"))
    trial(job, "bad__1", None, exception_info=failed("VerifierTimeoutError"))
    (job / "open__1").mkdir()
    (job / "open__1" / "config.json").write_text(
        '{"task": {"path": "a/open"}, "agent": {"name": "claude-code", "model_name": "x/opus"}}'
    )
    (job / "torn__1").mkdir()
    (job / "torn__1" / "result.json").write_text('{"task_name"')
    (job / "result.json").write_text('{"n_total_trials": 11}')
    said = called("import", f"opus={job}", "--out", tmp_path / "RUN")
    assert "3 of 11 trials have not begun" in said
    assert "8 results of 8 tasks by opus" in said
    found = {one.task: one for one in rows(tmp_path / "RUN").values()}
    assert found["good"].verdict == Verdict(passed=True, score=1.0)
    assert found["good"].usage.cost == 0.5
    assert found["good"].times.wall_s == 9
    errors = {name: one.verdict.error for name, one in found.items() if one.verdict}
    assert "nan: the scorer gave none" in (errors["nan"] or "")
    assert errors["none"] == "The verifier wrote no reward"
    assert errors["bad"] == "VerifierTimeoutError: so"
    statuses = {name: one.status for name, one in found.items() if one.status != "finished"}
    assert statuses == {"slow": "limit", "stop": "cancelled", "open": "lost", "torn": "lost"}


def test_what_is_no_log_is_named(tmp_path: Path):
    assert "is no log" in called("import", tmp_path, "--out", tmp_path / "RUN", status=1)
    assert "does not exist" in called("import", "nothing", "--out", tmp_path / "RUN", status=1)
    trial(tmp_path / "job", "a__1", {"speed": 1, "size": 2})
    said = called("import", tmp_path / "job", "--out", tmp_path / "RUN", status=1)
    assert "has the scores speed, size: choose one with --score NAME" in said
    called("import", tmp_path / "job", "--score", "size", "--out", tmp_path / "RUN")
    twice = [f"a={tmp_path / 'job'}"] * 2
    said = called("import", *twice, "--score", "size", "--out", tmp_path / "TWO", status=1)
    assert "1 attempts are there twice (a by a)" in said


def test_missing_package_is_named_with_its_command(tmp_path: Path, run: Path):
    code = (
        "import sys; sys.modules['inspect_ai'] = None\n"
        "from accord_fleet.command import command; command()"
    )
    words = ["export", run, "--to", "inspect", "--out", tmp_path / "out"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "pip install inspect-ai" in done.stderr
