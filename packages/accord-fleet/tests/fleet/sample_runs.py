"""Small runs for tests of datasets: plans, tasks and results."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator
from pathlib import Path

from accord_fleet.dataset.run_file import count_tasks
from accord_fleet.plan import Plan
from accord_fleet.types import AgentSpec, Result, Status, Task, Times, Usage, Verdict

__all__ = ("outcomes", "result", "sample_plan", "tasks")


def tasks(number: int) -> Iterator[Task]:
    """Yield tasks `t0`, `t1`, ..."""
    return (Task(id=f"t{index}", prompts=(f"Prompt {index}",)) for index in range(number))


def sample_plan(number: int = 10, agents: tuple[str, ...] = ("a",), attempts: int = 1) -> Plan:
    """Return the plan of a run with so many tasks."""
    counted = count_tasks(tasks(number))
    return Plan(
        created=1.7e9,
        agents=tuple(AgentSpec(name=name, command=(name,)) for name in agents),
        attempts=attempts,
        tasks=counted.number,
        digest=counted.digest,
    )


def result(
    task: int, agent: str = "a", attempt: int = 1, status: Status = "finished", answer: str = ""
) -> Result:
    """Return a result of a task."""
    return Result(
        task=f"t{task}",
        agent=agent,
        attempt=attempt,
        status=status,
        answer=answer or f"answer {task}",
        verdict=Verdict(passed=task % 2 == 0, score=task / 10),
        usage=Usage(cost=0.25, currency="USD", total_tokens=100),
        times=Times(started=1.7e9 + task, wall_s=2.0, turns_s=(1.5,)),
    )


async def outcomes(
    results: Iterable[Result], trace: bytes | None = None
) -> AsyncGenerator[tuple[Result, Path | bytes | None]]:
    """Yield results as an engine does."""
    for one in results:
        yield one, trace
