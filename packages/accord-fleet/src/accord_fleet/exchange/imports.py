"""Makes a run of the logs of evaluators: one attempt for each sample or trial, none left out."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from accord.text.excerpt import excerpt
from accord_fleet.dataset.run_file import count_tasks
from accord_fleet.dataset.writer import DatasetWriter
from accord_fleet.exchange.samples import Sample, plain_name, task_id
from accord_fleet.plan import Plan
from accord_fleet.types import AgentSpec, FleetError, Verdict

_MOST_SHOWN = 5


class Imported(msgspec.Struct, kw_only=True):
    """What was written."""

    results: int
    tasks: int
    agents: tuple[str, ...]
    notes: list[str] = []
    """What the logs lack."""


async def import_logs(words: Sequence[str], out: str, *, score: str | None = None) -> Imported:
    """Make the run `out` of logs, each `LOG` or `NAME=LOG` with a name for its agents.

    `score` names the score that is the verdict; without it, a log must have one. Raises
    `FleetError` for what is no log, for an attempt that is twice, and if there is none at all.
    """
    samples: list[Sample] = []
    notes: list[str] = []
    for word in words:
        name, path = _named(word)
        found = list(_read(path, notes))
        _judge(found, path, score)
        if name is not None:
            for one in found:
                one.result = msgspec.structs.replace(one.result, agent=name)
        samples += found
    if not samples:
        raise FleetError(f"Expected results, got none: {'; '.join(notes) or ', '.join(words)}")
    _tell_tasks_apart(samples)
    _check_once(samples)
    tasks = {one.task.id: one.task for one in samples}
    agents = {one.result.agent: one.command for one in samples}
    counted = count_tasks(tasks.values())
    plan = Plan(
        created=time.time(),
        agents=tuple(
            AgentSpec(name=name, command=command or ("unknown",))
            for name, command in agents.items()
        ),
        attempts=max(one.result.attempt for one in samples),
        tasks=counted.number,
        digest=counted.digest,
        imported=tuple(words),
    )
    async with await DatasetWriter.create(out, plan, tasks.values()) as writer:
        for one in samples:
            await writer.append(one.result)
    return Imported(results=len(samples), tasks=counted.number, agents=tuple(agents), notes=notes)


def _named(word: str) -> tuple[str | None, Path]:
    name, equals, path = word.partition("=")
    if not equals or Path(word).exists():
        return None, Path(word)
    if plain_name(name) != name:
        raise FleetError(f"Expected NAME=LOG with letters, digits, '.', '_' and '-', got {word!r}")
    return name, Path(path)


def _read(path: Path, notes: list[str]) -> Iterator[Sample]:
    """Yield the attempts of a log, a folder of logs, or a job."""
    if not path.exists():
        raise FleetError(f"{path} does not exist: expected a log of inspect-ai or a job of Harbor")
    if path.is_file():
        from accord_fleet.exchange.inspect_log import read_inspect_log

        yield from read_inspect_log(path, notes)
        return
    from accord_fleet.exchange.harbor_job import is_harbor_job, read_harbor_job

    if is_harbor_job(path):
        yield from read_harbor_job(path, notes)
        return
    logs = sorted(path.glob("*.eval"))
    if not logs:
        raise FleetError(
            f"{path} is no log: expected a file .eval or .json of inspect-ai, a folder with files "
            ".eval, or a job of Harbor (a folder with trials that have a result.json)"
        )
    for log in logs:
        yield from _read(log, notes)


# Verdicts.

_LETTERS = {
    "C": 1.0,
    "I": 0.0,
    "P": 0.5,
    "N": 0.0,
    "yes": 1.0,
    "no": 0.0,
    "true": 1.0,
    "false": 0.0,
}


def _judge(samples: Sequence[Sample], path: Path, score: str | None) -> None:
    """Give the samples of one log their verdicts."""
    names = list(dict.fromkeys(name for one in samples for name in one.scores))
    if score is None and len(names) > 1:
        if "reward" not in names:  # the one that Harbor's verifiers write
            raise FleetError(
                f"{path} has the scores {', '.join(names)}: choose one with --score NAME"
            )
        score = "reward"
    elif score is None and names:
        score = names[0]
    if score is not None and names and score not in names:
        raise FleetError(f"{path}: expected a score of the log ({', '.join(names)}), got {score!r}")
    for one in samples:
        verdict = one.verdict if one.verdict is not None else _verdict(one, score)
        one.result = msgspec.structs.replace(one.result, verdict=verdict or one.result.verdict)


def _verdict(sample: Sample, score: str | None) -> Verdict | None:
    if score is None or (
        not sample.scores and (sample.is_exported or sample.result.status != "finished")
    ):
        return None
    if score not in sample.scores:
        if sample.result.verdict is not None:  # its error
            return None
        return Verdict(error=f"The log has no score {score} of this sample")
    value = sample.scores[score]
    reason = sample.reasons.get(score, "")
    details = {"scores": _finite(sample.scores)} if len(sample.scores) > 1 else {}
    number = _number(value)
    if number is None:
        what = (
            "the scorer gave none" if isinstance(value, float) else "expected a number or C, I, P"
        )
        error = f"The score {score} is {excerpt(repr(value))}: {what}"
        return Verdict(error=error, reason=reason, details=details)
    return Verdict(passed=number >= 1, score=number, reason=reason, details=details)


def _number(value: Any) -> float | None:
    """Return a score as a finite number, or None."""
    if isinstance(value, str):
        letter = _LETTERS.get(value, _LETTERS.get(value.lower()))
        if letter is not None:
            return letter
    elif not isinstance(value, (bool, int, float)):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _finite(scores: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in scores.items()
    }


def _tell_tasks_apart(samples: Iterable[Sample]) -> None:
    """Put the name of the dataset before the ids of tasks, if the logs have several datasets."""
    samples = list(samples)
    if len({one.dataset for one in samples}) < 2:
        return
    for one in samples:
        name = task_id(f"{one.dataset}.{one.task.id}")
        one.task = msgspec.structs.replace(one.task, id=name)
        one.result = msgspec.structs.replace(one.result, task=name)


def _check_once(samples: Sequence[Sample]) -> None:
    counts = Counter(one.result.key for one in samples)
    twice = [key for key, count in counts.items() if count > 1]
    if not twice:
        return
    shown = ", ".join(f"{task} by {agent}" for task, agent, _ in twice[:_MOST_SHOWN])
    logs = dict.fromkeys(one.place for one in samples if one.result.key in twice)
    raise FleetError(
        f"{len(twice)} attempts are there twice ({shown}), in {', '.join(logs)}: name the agents "
        "of each log apart (NAME=LOG), or import one of the logs"
    )
