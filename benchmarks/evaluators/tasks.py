"""Tasks of inspect-ai for `run.py`: each asks an agent to write a file, which a scorer looks for.

`ACCORD_EVALUATED` has the agents as JSON: name, command, environment, prompt. Each sample appends
a line to `ACCORD_STARTS` when it begins, so that a sample that runs again is noticed.
"""

import json
import os
from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, Target, accuracy, scorer
from inspect_ai.solver import Generate, Solver, TaskState, chain, solver
from inspect_ai.util import sandbox

from accord_bridges.inspect import acp_agent

CONTENT = "Written by a recording.\n"


@solver
def noted() -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        with Path(os.environ["ACCORD_STARTS"]).open("a") as file:  # noqa: ASYNC230
            file.write(f"{state.sample_id}\n")
        cwd = (await sandbox().exec(["pwd"])).stdout.strip()
        state.user_prompt.text = state.user_prompt.text.replace("{cwd}", cwd)
        return state

    return solve


@scorer(metrics=[accuracy()])
def has_written():
    async def score(state: TaskState, target: Target) -> Score:
        try:
            text = await sandbox().read_file(target.text)
        except FileNotFoundError:
            return Score(value=0, explanation="the file is missing")
        return Score(value=int(text.strip() == CONTENT.strip()), explanation=text)

    return score


def evaluation(agent: dict[str, object], count: int) -> Task:
    name = str(agent["name"])
    samples = [
        Sample(
            id=f"{name}-{at}",
            input=str(agent["prompt"]).replace("{file}", f"notes-{at}.txt"),
            target=f"notes-{at}.txt",
        )
        for at in range(count)
    ]
    solve = chain(noted(), acp_agent(agent["command"], env=agent["env"], mode=agent["mode"]))
    return Task(
        samples, solver=solve, scorer=has_written(), sandbox="local", name=name, time_limit=300
    )


@task
def writes(agent: str) -> Task:
    """Ask one of the agents for as many files as `ACCORD_COUNT` says."""
    known = {one["name"]: one for one in json.loads(os.environ["ACCORD_EVALUATED"])}
    return evaluation(known[agent], int(os.environ["ACCORD_COUNT"]))
