"""A fleet with a workspace and a grader for all of its tasks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from accord import Agent, Turn
from accord_fleet import (
    AgentGrader,
    AgentSpec,
    Fleet,
    FleetError,
    Folder,
    GradedAttempt,
    Task,
    TaskErrors,
    Verdict,
)
from accord_fleet.sandbox.settings import SandboxSettings

SCRIPT = AgentSpec(name="script", command=(sys.executable, "-m", "accord", "agent", "script"))


def said_right(attempt: GradedAttempt) -> bool:
    assert (attempt.workspace / "a.txt").read_text() == "a"
    return "right" in attempt.result.answer


async def test_tasks_get_the_workspace_and_the_grader_of_the_fleet(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.txt").write_text("a")
    tasks = [Task(id=word, prompts=(f"echo {word}",)) for word in ("right", "wrong")]
    fleet = Fleet([SCRIPT], workspace=Folder(str(source)), grader=said_right)
    verdicts = {result.task: result.verdict async for result in fleet.run(tasks)}
    assert verdicts == {"right": Verdict(passed=True), "wrong": Verdict(passed=False)}
    assert sorted(path.name for path in source.iterdir()) == ["a.txt"]


async def test_agent_of_the_fleet_grades() -> None:
    grader = AgentGrader(agent="script", prompt='echo {"passed": false, "reason": "no"}')
    fleet = Fleet([SCRIPT], grader=grader)
    (result,) = [result async for result in fleet.run([{"id": "a", "prompt": "echo hello"}])]
    assert result.verdict == Verdict(passed=False, reason="no")


async def test_wrong_tasks_are_not_run() -> None:
    fleet = Fleet([SCRIPT])
    with pytest.raises(TaskErrors, match="unique id"):
        _ = [r async for r in fleet.run([Task(id="a", prompts=("p",))] * 2)]


class Echo(Agent):
    async def prompt(self, turn: Turn) -> None:
        await turn.say("hello")


def test_agents_that_a_sandbox_cannot_isolate_are_refused_at_once() -> None:
    sandbox = SandboxSettings(mode="no-network")
    for agents, why in (
        ([AgentSpec(name="far", command=("ws://127.0.0.1:9/acp",))], "far, which runs elsewhere"),
        ([AgentSpec(name="near", command=("unix:far.sock",))], "near, which runs elsewhere"),
        ([Echo], "Echo, which runs in this process"),
    ):
        with pytest.raises(FleetError, match=f"The sandbox cannot isolate {why}"):
            Fleet(agents, sandbox=sandbox)
        Fleet(agents, sandbox=SandboxSettings(mode="off"))
