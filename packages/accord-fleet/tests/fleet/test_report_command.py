"""`accord fleet report` reads the dataset of a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from accord_fleet.command.commands import report
from accord_fleet.dataset.run_file import count_tasks
from accord_fleet.dataset.writer import DatasetWriter
from accord_fleet.report.summary import Report
from accord_fleet.types import CommandGrader, Failure, Result, Task
from fleet.sample_results import AGENTS, sample_results
from fleet.sample_runs import sample_plan


def tasks() -> Iterator[Task]:
    grader = CommandGrader(command=("true",))
    return (Task(id=f"task-{at:05}", prompts=("x",), grader=grader) for at in range(12))


def rows() -> Iterator[Result]:
    failure = Failure(where="agent_exit", message="exited with status 9")
    for number, row in enumerate(sample_results(10)):
        failed = msgspec.structs.replace(row, status="failed", verdict=None, failure=failure)
        yield failed if number < 3 else row


@pytest.fixture
async def run(tmp_path: Path) -> Path:
    folder = tmp_path / "a run"
    counted = count_tasks(tasks())
    plan = msgspec.structs.replace(
        sample_plan(12, tuple(AGENTS)), tasks=counted.number, digest=counted.digest
    )
    async with await DatasetWriter.create(folder, plan, tasks()) as writer:
        for row in rows():
            await writer.append(row)
    return folder


def called(*arguments: str) -> str:
    result = CliRunner().invoke(report, arguments)
    assert result.exit_code == 0, result.output
    return result.output


async def test_the_report_is_printed_with_what_is_missing(run: Path) -> None:
    shown = called(str(run))
    assert "30 results: 10 tasks, 3 agents" in shown
    assert "6 results are missing" in shown
    assert "claude-agent" in shown


async def test_the_report_is_written_as_a_page(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert called(str(run), "--html", str(page)) == f"30 results: {page}\n"
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert f"accord inspect &#x27;{run}/traces/" in page.read_text("utf-8")


async def test_the_report_is_written_as_json(run: Path) -> None:
    report = msgspec.json.decode(called(str(run), "--json"), type=Report)
    assert report.results == 30
    assert report.planned == 36
    finished = [row for row in rows() if row.status == "finished"]
    assert sum(agent.statuses["finished"] for agent in report.agents) == len(finished)
    # Every task has a grader, so an agent that failed has not passed.
    outcomes = [agent.outcomes for agent in report.agents]
    judged = sum(one.get(name, 0) for one in outcomes for name in ("passed", "not_passed"))
    unfinished = sum(one.get("unfinished", 0) for one in outcomes)
    assert unfinished >= 3
    assert judged + unfinished == sum(
        agent.success.judged for agent in report.agents if agent.success
    )


def test_what_is_not_a_run_is_an_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(report, [str(tmp_path)])
    assert result.exit_code == 1
    assert "Error: " in result.output
