"""The result of one attempt."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from accord_fleet.types.limits import LimitName

Status = Literal["finished", "failed", "limit", "cancelled", "lost"]
"""How an attempt ended.

- `finished`: the agent ended all turns, whatever the grader says.
- `failed`: `Failure.where` tells what failed.
- `limit`: the attempt was ended at a limit.
- `cancelled`: the user cancelled it.
- `lost`: its machine or the driver was lost, and it must not be repeated.
"""
FailedPart = Literal["workspace", "start", "session", "turn", "agent_exit", "sandbox", "engine"]


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why an attempt did not finish."""

    where: FailedPart | None = None
    limit: LimitName | None = None
    message: str = ""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens and cost; None where nothing was reported."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cost: float | None = None
    currency: str | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the grader says. `error` is set if the grader itself failed; there is no score then."""

    passed: bool | None = None
    score: float | None = None
    reason: str = ""
    error: str | None = None
    details: dict[str, Any] = {}
    usage: Usage = Usage()
    """What an agent that graded has used; it is not in the usage of the attempt."""


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """When, in seconds since 1970, and how long, in seconds."""

    started: float
    workspace_s: float = 0.0
    start_s: float = 0.0
    """From starting the agent to its session; about 0 for a warm agent."""
    turns_s: tuple[float, ...] = ()
    grading_s: float = 0.0
    wall_s: float = 0.0


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a dataset: the only result of (task, agent, attempt)."""

    task: str
    agent: str
    attempt: int = 1
    status: Status
    failure: Failure | None = None
    stop_reasons: tuple[str, ...] = ()
    """One for each turn that ended."""
    answer: str = ""
    """The text of the last turn."""
    diff: str = ""
    """Changes of the workspace as a unified diff, cut at a limit."""
    files_changed: tuple[str, ...] = ()
    tool_calls: int = 0
    verdict: Verdict | None = None
    usage: Usage = Usage()
    """Of all turns."""
    times: Times
    stderr: str = ""
    """The end of what the agent wrote to its stderr."""
    trace: str | None = None
    """The recording, relative to the folder of the run."""
    machine: str = ""
    repeated: tuple[str, ...] = ()
    """Why it was started again on other machines: for each, its name and what failed there."""
    tags: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, int]:
        """What identifies the attempt in a dataset."""
        return self.task, self.agent, self.attempt
