"""`accord fleet status`: how far a run is, also while it runs."""

from __future__ import annotations

import json
import time
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from accord_fleet.command import command
from accord_fleet.dataset.dataset import Dataset, run_status
from accord_fleet.dataset.writer import DatasetWriter
from accord_fleet.types import Failure, Result, Times, Usage
from fleet.sample_runs import outcomes, result, sample_plan, tasks
from growth import cost_of


def some_results() -> list[Result]:
    wall = Failure(limit="wall_s", message="10 s")
    turn = Failure(where="turn", message="it broke")
    replace = msgspec.structs.replace
    return [
        *(result(index) for index in range(4)),
        replace(result(4, status="limit"), failure=wall, verdict=None),
        replace(result(5, status="failed"), failure=turn, verdict=None, usage=Usage()),
        result(6, agent="b", status="cancelled"),
        result(7, agent="b"),
    ]


async def test_status_of_a_stopped_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    async with await DatasetWriter.create(run, sample_plan(10, ("a", "b")), tasks(10)) as writer:
        for one in some_results():
            await writer.append(one)
    done = CliRunner().invoke(command, ["status", str(run)])
    assert done.output.replace(str(run), "RUN") == (
        "RUN: stopped; continue it with `accord fleet resume RUN`\n"
        "  8 of 20 results (40 %), 13 remain (1 cancelled)\n"
        "  700 tokens, 1.75 USD (reported by 7 results)\n"
        "\n"
        "          5 finished\n"
        "          1 limit: wall_s\n"
        "          1 failed: turn\n"
        "          1 cancelled\n"
        "\n"
        "  agent  done  finished  passed  not passed      cost\n"
        "  a         6         4       2           2  1.25 USD\n"
        "  b         2         1       1           1   0.5 USD\n"
    )
    assert done.return_value == 3 or done.exit_code in {0, 3}
    found = json.loads(CliRunner().invoke(command, ["status", str(run), "--json"]).output)
    assert found["remaining"] == 13
    assert found["state"] == "stopped"
    assert found["cost"] == {"USD": 1.75}
    assert found["agents"]["b"]["total"] == 10


async def test_status_while_it_runs(tmp_path: Path) -> None:
    async with await DatasetWriter.create(tmp_path, sample_plan(10), tasks(10)) as writer:
        for index in range(5):
            now = Times(started=time.time())
            await writer.append(msgspec.structs.replace(result(index), times=now))
        status = run_status(Dataset.open(tmp_path))
        assert status.state == "running"
        assert status.writer is not None
        assert status.per_second is not None
        assert status.per_second > 0
        assert status.left_s == pytest.approx(5 / status.per_second)
        output = CliRunner().invoke(command, ["status", str(tmp_path)]).output
        assert "running since 20" in output
        assert " left (until " in output
    assert run_status(Dataset.open(tmp_path)).state == "stopped"


async def test_the_status_of_many_results_needs_little_memory(tmp_path: Path) -> None:
    peaks: list[int] = []
    for number in (500, 3000):
        run = tmp_path / str(number)
        plan = sample_plan(number)
        async with await DatasetWriter.create(run, plan, tasks(number)) as writer:
            async for _ in writer.append_all(outcomes(map(result, range(number)))):
                pass
        dataset = Dataset.open(run)
        assert run_status(dataset).done == number
        peaks.append(cost_of(lambda dataset=dataset: run_status(dataset)).peak)
    assert peaks[1] < 2 * peaks[0] + 100_000


def test_what_is_not_a_run(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["status", str(tmp_path)])
    assert done.exit_code == 1
    assert "is not a dataset: run.json is missing" in done.output
