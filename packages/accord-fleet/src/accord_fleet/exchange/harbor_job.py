"""Jobs of Harbor: a folder with a folder for each trial, which are files of JSON.

Harbor need not be installed. An attempt becomes a trial with its trajectory in ATIF.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import msgspec

from accord.text.excerpt import excerpt
from accord.text.lenient_json import is_object
from accord_bridges.atif import trajectory_of
from accord_fleet.dataset.dataset import Dataset
from accord_fleet.exchange.conversation import conversation_of
from accord_fleet.exchange.samples import Sample, own_metadata, own_of, plain_name, task_id
from accord_fleet.types import (
    CommandGrader,
    FailedPart,
    Failure,
    LimitName,
    Result,
    Status,
    Task,
    Times,
    Usage,
    Verdict,
)

_RESULT, _CONFIG = "result.json", "config.json"

# What Harbor has in `result.json` of a trial, as far as it is read here.


class _Model(msgspec.Struct):
    name: str


class _Agent(msgspec.Struct):
    name: str
    model_info: _Model | None = None


class _Context(msgspec.Struct):
    n_input_tokens: int | None = None
    n_output_tokens: int | None = None
    cost_usd: float | None = None
    metadata: dict[str, Any] | None = None


class _Verifier(msgspec.Struct):
    rewards: dict[str, Any] | None = None


class _Exception(msgspec.Struct):
    exception_type: str
    exception_message: str = ""


class _Timing(msgspec.Struct):
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def seconds(self) -> float:
        """How long the phase took."""
        return _between(self.started_at, self.finished_at)


class _Part(msgspec.Struct, kw_only=True):
    """A trial, or a step of one."""

    agent_result: _Context | None = None
    verifier_result: _Verifier | None = None
    exception_info: _Exception | None = None


class _Step(_Part, kw_only=True):
    step_name: str


class _Trial(_Part, kw_only=True):
    task_name: str
    agent_info: _Agent
    source: str | None = None
    config: dict[str, Any] = {}
    started_at: datetime | None = None
    finished_at: datetime | None = None
    environment_setup: _Timing | None = None
    agent_setup: _Timing | None = None
    agent_execution: _Timing | None = None
    verifier: _Timing | None = None
    step_results: list[_Step] | None = None


# Reading.


def is_harbor_job(folder: Path) -> bool:
    """Return whether a folder is that of a job: trials are in it, or its configuration is."""
    return bool(_trials(folder)) or "n_attempts" in _json(folder / _CONFIG)


def read_harbor_job(folder: Path, notes: list[str]) -> Iterator[Sample]:
    """Yield the attempts of a job, also of trials that have no readable result.

    Adds to `notes` how many trials have not begun.
    """
    found = [_sample(trial) for trial in _trials(folder)]
    expected = _json(folder / _RESULT).get("n_total_trials")
    if isinstance(expected, int) and expected > len(found):
        notes.append(f"{folder}: {expected - len(found)} of {expected} trials have not begun")
    # The attempts at a task have no number in Harbor: the order of their starts is one.
    counts: Counter[tuple[str, str]] = Counter()
    for one in sorted(found, key=lambda one: one.result.times.started):
        if not one.is_exported:
            counts[one.result.task, one.result.agent] += 1
            number = counts[one.result.task, one.result.agent]
            one.result = msgspec.structs.replace(one.result, attempt=number)
        yield one


def _trials(folder: Path) -> list[Path]:
    return sorted(
        trial for trial in folder.iterdir()
        if trial.is_dir() and ((trial / _RESULT).is_file() or (trial / _CONFIG).is_file())
    )  # fmt: skip


def _json(path: Path) -> dict[str, Any]:
    """Return the object of a file; empty if it is missing or damaged."""
    try:
        found: Any = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if is_object(found) else {}


def _sample(folder: Path) -> Sample:
    try:
        found: Any = json.loads((folder / _RESULT).read_text("utf-8"))  # it may have NaN
        trial = msgspec.convert(found, _Trial)
    except FileNotFoundError:
        return _lost(folder, f"The trial has no {_RESULT}: it has not ended")
    except (OSError, ValueError) as error:
        return _lost(folder, f"{_RESULT} of the trial cannot be read: {excerpt(str(error))}")
    return _read(folder, trial)


def _lost(folder: Path, message: str) -> Sample:
    config = _json(folder / _CONFIG)
    named: dict[str, Any] = config.get("task") or {}
    name = Path(str(named.get("path") or named.get("name") or folder.name.partition("__")[0])).name
    agent, command = _agent(config, None)
    task = Task(id=task_id(name), prompts=(_UNKNOWN,), grader=_GRADER)
    result = Result(
        task=task.id, agent=agent, status="lost", failure=Failure(message=message),
        times=Times(started=folder.stat().st_mtime),
    )  # fmt: skip
    return Sample(
        place=str(folder), dataset=str(named.get("source") or ""), command=command, task=task,
        result=result, scores={},
    )  # fmt: skip


_UNKNOWN = "(not in the log)"
_GRADER = CommandGrader(command=("harbor", "verifier"))


def _agent(config: dict[str, Any], info: _Agent | None) -> tuple[str, tuple[str, ...]]:
    """Return the name of a trial's agent with its model, and the command of an ACP agent."""
    given: dict[str, Any] = config.get("agent") or {}
    kwargs: dict[str, Any] = given.get("kwargs") or {}
    command: Any = kwargs.get("command") or ()
    words: tuple[str, ...] = tuple(
        command.split() if isinstance(command, str) else map(str, command)
    )
    model = info.model_info.name if info and info.model_info else given.get("model_name") or ""
    name = Path(words[0]).name if words else info.name if info else given.get("name") or "agent"
    return plain_name("-".join(filter(None, (name, Path(model).name)))), words


def _read(folder: Path, trial: _Trial) -> Sample:
    steps = trial.step_results or []
    parts: list[_Part] = [trial, *steps]
    contexts = [one.agent_result for one in parts if one.agent_result is not None]
    errors = [one.exception_info for one in parts if one.exception_info is not None]
    scores = dict(trial.verifier_result.rewards or {}) if trial.verifier_result else {}
    for step in steps if not scores else ():
        rewards = (step.verifier_result.rewards if step.verifier_result else None) or {}
        scores |= {f"{step.step_name}/{name}": value for name, value in rewards.items()}
    agent, command = _agent(trial.config, trial.agent_info)
    status, failure, verdict = _ending(errors)
    own = own_of(contexts[0].metadata or {}) if contexts else None
    if own is not None:
        task, result = own
        kept = result.verdict
        if kept is None or _rewards(kept) != scores:
            kept, verdict = None, verdict or kept  # the trial was graded again
    else:
        kept = None
        said: list[dict[str, Any]] = _json(folder / "agent" / "trajectory.json").get("steps") or []
        prompts = [_text(one) for one in said if one.get("source") == "user"] or [_UNKNOWN]
        if status == "finished" and not scores and verdict is None:
            verdict = Verdict(error="The verifier wrote no reward")
        task = Task(id=task_id(trial.task_name), prompts=tuple(prompts), grader=_GRADER)
        result = Result(
            task=task.id, agent=agent, status=status, failure=failure,
            answer=next((text for one in reversed(said) if one.get("source") == "agent"
                         if (text := _text(one))), ""),
            tool_calls=sum(len(one.get("tool_calls") or ()) for one in said),
            usage=_usage(contexts), times=_times(folder, trial),
        )  # fmt: skip
    return Sample(
        place=str(folder), dataset=trial.source or "", command=command, task=task, scores=scores,
        result=msgspec.structs.replace(result, trace=None, verdict=verdict), verdict=kept,
        is_exported=own is not None,
    )  # fmt: skip


_OF_VERIFIER = ("Verifier", "Reward", "DownloadVerifier", "AddTests")
_OF_MACHINE = (
    "Environment",
    "Sandbox",
    "Healthcheck",
    "MemoryLimit",
    "SSHAccess",
    "GKE",
    "Runtime",
)


def _ending(errors: list[_Exception]) -> tuple[Status, Failure | None, Verdict | None]:
    """Return what the exceptions of a trial say of its agent, and of its verifier."""
    verdict: Verdict | None = None
    for error in errors:
        kind = error.exception_type
        message = f"{kind}: {error.exception_message}".rstrip(": ")
        if kind.startswith(_OF_VERIFIER):
            verdict = Verdict(error=message)
        elif kind == "CancelledError":
            return "cancelled", Failure(message=message), verdict
        elif kind == "AgentTimeoutError":
            return "limit", Failure(limit="wall_s", message=message), verdict
        elif kind == "AgentSetupTimeoutError":
            return "failed", Failure(where="start", message=message), verdict
        else:
            is_machine = kind.startswith(_OF_MACHINE) and kind != "RuntimeError"
            where: FailedPart = "workspace" if is_machine else "turn"
            return "failed", Failure(where=where, message=message), verdict
    return "finished", None, verdict


def _text(step: dict[str, Any]) -> str:
    """Return the text of a step of a trajectory."""
    message: Any = step.get("message") or ""
    if isinstance(message, str):
        return message
    return "\n".join(str(part.get("text") or "") for part in message)


def _usage(contexts: list[_Context]) -> Usage:
    def total(values: list[int | None]) -> int | None:
        known = [value for value in values if value is not None]
        return sum(known) if known else None

    costs = [one.cost_usd for one in contexts if one.cost_usd is not None]
    read = total([one.n_input_tokens for one in contexts])
    written = total([one.n_output_tokens for one in contexts])
    return Usage(
        input_tokens=read, output_tokens=written, total_tokens=total([read, written]),
        cost=sum(costs) if costs else None, currency="USD" if costs else None,
    )  # fmt: skip


def _times(folder: Path, trial: _Trial) -> Times:
    begun = trial.started_at
    phases = (trial.environment_setup, trial.agent_setup, trial.agent_execution, trial.verifier)
    workspace_s, start_s, turn_s, grading_s = (one.seconds if one else 0.0 for one in phases)
    return Times(
        started=folder.stat().st_mtime if begun is None else begun.timestamp(),
        workspace_s=workspace_s, start_s=start_s, turns_s=(turn_s,) if turn_s else (),
        grading_s=grading_s, wall_s=max(0.0, _between(begun, trial.finished_at) - grading_s),
    )  # fmt: skip


def _between(start: datetime | None, end: datetime | None) -> float:
    if start is None or end is None:
        return 0.0
    return max(0.0, (end - start).total_seconds())


# Writing.

_VERSION = "unknown"  # an agent's; Harbor demands one


async def write_harbor_job(dataset: Dataset, folder: Path) -> list[Path]:
    """Write a run as the folder of a job; return that."""
    job = _Job(dataset, folder)
    for result in dataset.results():
        task = job.tasks[result.task]
        said = await conversation_of(dataset, task, result)
        trajectory = trajectory_of(*said, agent=result.agent, version=_VERSION)
        await asyncio.to_thread(job.add, task, result, trajectory)
    job.close()
    return [folder]


class _Job:
    """The folder of a job while it is written."""

    def __init__(self, dataset: Dataset, folder: Path) -> None:
        self.plan = dataset.plan
        self.folder = folder.absolute()
        self.name = plain_name(Path(dataset.address.rstrip("/")).name)
        self.tasks = {task.id: task for task in dataset.tasks()}
        self._id = str(uuid5(NAMESPACE_URL, f"accord:{self.name}:{self.plan.created}"))
        self._ends: list[float] = [self.plan.created]
        self._evals: dict[str, dict[str, Any]] = {}
        self._counts: Counter[str] = Counter()
        self._totals: dict[str, float] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, task: Task, result: Result, trajectory: dict[str, Any]) -> None:
        """Write the trial of an attempt."""
        name = f"{task.id}__{result.agent}-{result.attempt}"
        trial = self.folder / name
        (trial / "agent").mkdir(parents=True)
        config = {
            "task": {"path": f"tasks/{task.id}", "source": self.name},
            "trial_name": name,
            "trials_dir": str(self.folder),
            "agent": self._config(result.agent),
            "job_id": self._id,
        }
        found = self._result(name, task, result, config)
        _write(trial / _CONFIG, config)
        _write(trial / _RESULT, found)
        _write(trial / "agent" / "trajectory.json", trajectory)
        if result.verdict is not None and (rewards := _rewards(result.verdict)):
            (trial / "verifier").mkdir()
            _write(trial / "verifier" / "reward.json", rewards)
        if found["exception_info"] is not None:
            (trial / "exception.txt").write_text(found["exception_info"]["exception_message"])
        self._count(name, result, found)

    def _config(self, agent: str) -> dict[str, Any]:
        spec = next(one for one in self.plan.agents if one.name == agent)
        return {"name": agent, "kwargs": {"command": list(spec.command)}}

    def _result(
        self, name: str, task: Task, result: Result, config: dict[str, Any]
    ) -> dict[str, Any]:
        times, usage, verdict = result.times, result.usage, result.verdict
        begin = times.started
        end = begin + times.wall_s + times.grading_s
        self._ends.append(end)
        turns_s = sum(times.turns_s)
        setup = begin + times.workspace_s
        is_dollars = usage.currency in (None, "USD")
        rewards = {} if verdict is None else _rewards(verdict)
        return {
            "id": str(uuid5(NAMESPACE_URL, f"{self._id}/{name}")),
            "task_name": task.id,
            "trial_name": name,
            "trial_uri": (self.folder / name).as_uri(),
            "task_id": {"path": f"tasks/{task.id}"},
            "source": self.name,
            "task_checksum": hashlib.sha256(msgspec.json.encode(task)).hexdigest(),
            "config": config,
            "agent_info": {"name": result.agent, "version": _VERSION},
            "agent_result": {
                "n_input_tokens": usage.input_tokens,
                "n_output_tokens": usage.output_tokens,
                "cost_usd": usage.cost if is_dollars else None,
                "metadata": own_metadata(task, result),
            },
            "verifier_result": {"rewards": rewards} if rewards else None,
            "exception_info": _exception(result, end),
            "started_at": _iso(begin),
            "finished_at": _iso(end),
            "environment_setup": _phase(begin, times.workspace_s),
            "agent_setup": _phase(setup, times.start_s),
            "agent_execution": _phase(setup + times.start_s, turns_s),
            "verifier": _phase(begin + times.wall_s, times.grading_s),
        }

    def _count(self, name: str, result: Result, found: dict[str, Any]) -> None:
        one = self._evals.setdefault(
            f"{result.agent}__{self.name}",
            {"n_trials": 0, "n_errors": 0, "reward_stats": {}, "exception_stats": {}},
        )
        self._counts["n_completed_trials"] += 1
        if found["verifier_result"] is not None and found["exception_info"] is None:
            one["n_trials"] += 1
            for key, value in found["verifier_result"]["rewards"].items():
                of = one["reward_stats"].setdefault(key, {})
                of.setdefault(str(value), []).append(name)
        if found["exception_info"] is not None:
            kind = found["exception_info"]["exception_type"]
            one["n_errors"] += 1
            one["exception_stats"].setdefault(kind, []).append(name)
            self._counts["n_errored_trials"] += 1
            self._counts["n_cancelled_trials"] += kind == "CancelledError"
        for key in ("n_input_tokens", "n_output_tokens", "cost_usd"):
            if (value := found["agent_result"][key]) is not None:
                self._totals[key] = self._totals.get(key, 0) + value

    def close(self) -> None:
        """Write the files of the job."""
        total = self.plan.total
        done = self._counts["n_completed_trials"]
        stats = {
            **self._counts, **self._totals, "n_pending_trials": total - done,
            "evals": self._evals,
        }  # fmt: skip
        end = _iso(max(self._ends))
        _write(self.folder / _CONFIG, {
            "job_name": self.folder.name,
            "jobs_dir": str(self.folder.parent),
            "n_attempts": self.plan.attempts,
            "agents": [self._config(spec.name) for spec in self.plan.agents],
            "tasks": [{"path": f"tasks/{name}", "source": self.name} for name in self.tasks],
        })  # fmt: skip
        _write(self.folder / _RESULT, {
            "id": self._id,
            "started_at": _iso(self.plan.created),
            "updated_at": end,
            "finished_at": end if done == total else None,
            "n_total_trials": total,
            "stats": stats,
        })  # fmt: skip


def _rewards(verdict: Verdict) -> dict[str, float]:
    """Return what Harbor calls the rewards of a verdict; none if the grader failed."""
    if verdict.error is not None or (verdict.score is None and verdict.passed is None):
        return {}
    return {"reward": float(bool(verdict.passed)) if verdict.score is None else verdict.score}


_KINDS: dict[LimitName | FailedPart | Status | None, str] = {
    "turn_s": "AgentTimeoutError",
    "wall_s": "AgentTimeoutError",
    "workspace": "EnvironmentStartError",
    "sandbox": "SandboxError",
    "engine": "EnvironmentLostError",
    "agent_exit": "NonZeroAgentExitCodeError",
    "cancelled": "CancelledError",
    "lost": "EnvironmentLostError",
}


def _exception(result: Result, at: float) -> dict[str, Any] | None:
    """Return the exception of a trial for an attempt that did not finish, or was not graded."""
    failure = result.failure or Failure()
    if result.status != "finished":
        reason = failure.limit or failure.where or result.status
        kind, message = _KINDS.get(reason, "AgentError"), failure.message or result.status
    elif result.verdict is not None and result.verdict.error is not None:
        kind, message = "VerifierError", result.verdict.error
    else:
        return None
    return {
        "exception_type": kind, "exception_message": message,
        "exception_traceback": result.stderr, "occurred_at": _iso(at),
    }  # fmt: skip


def _phase(begin: float, seconds: float) -> dict[str, str] | None:
    return {"started_at": _iso(begin), "finished_at": _iso(begin + seconds)} if seconds else None


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1, default=str), "utf-8")
