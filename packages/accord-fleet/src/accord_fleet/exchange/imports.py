"""Makes a run of the logs of evaluators: one attempt for each sample or trial, none left out."""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec

from accord.text.excerpt import excerpt
from accord_fleet.dataset.run_file import count_tasks
from accord_fleet.dataset.writer import DatasetWriter
from accord_fleet.plan import Plan
from accord_fleet.types import AgentSpec, FleetError, Result, Task, Verdict

OWN = "accord_fleet"
"""The key, in the metadata of a log, of what an export adds for an exact import."""
_MOST_SHOWN = 5


class Sample(msgspec.Struct, kw_only=True):
    """One attempt of a log."""

    place: str
    """Its log, for messages."""
    dataset: str
    """What its evaluator calls the set of tasks."""
    command: tuple[str, ...]
    """The command of the agent, if the log has it."""
    task: Task
    result: Result
    """Without a verdict, unless it has no scores."""
    scores: dict[str, Any]
    """Values by the name of a scorer; that of a part of a value is `SCORER/PART`."""
    reasons: dict[str, str] = {}
    """What a scorer says for its score, by the same names."""
    verdict: Verdict | None = None
    """What an export wrote for the score, if nobody has changed that since."""
    is_exported: bool = False
    """Whether `accord fleet export` wrote it, so that the task and the result are exact."""


class Imported(msgspec.Struct, kw_only=True):
    """What was written."""

    results: int
    tasks: int
    agents: tuple[str, ...]
    notes: list[str] = []
    """What the logs lack."""


# Yields the attempts of a log, and adds what the user should know to the notes.
ReadLog: TypeAlias = Callable[[Path, list[str]], Iterator[Sample]]


async def import_logs(
    words: Sequence[str], out: str, read: ReadLog, *, score: str | None = None
) -> Imported:
    """Make the run `out` of logs, each `LOG` or `NAME=LOG` with a name for its agents.

    `read` yields the attempts of a log, and adds to the notes. `score` names the score that is the
    verdict; without it, a log must have one. Raises
    `FleetError` for what is no log, for an attempt that is twice, and if there is none at all.
    """
    samples: list[Sample] = []
    notes: list[str] = []
    for word in words:
        name, path = _named(word)
        found = list(read(path, notes))
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


def flat_scores(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by name, with the parts of values that are objects under names of their own."""
    found: dict[str, Any] = {}
    for name, value in scores.items():
        if isinstance(value, Mapping):
            parts = cast("Mapping[str, Any]", value)
            found.update({f"{name}/{part}": one for part, one in parts.items()})
        else:
            found[name] = value
    return found


# Names.

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def plain_name(text: str) -> str:
    """Return a text as the name of an agent."""
    return _UNSAFE.sub("-", text).strip("-._")[:100] or "agent"


def task_id(text: str) -> str:
    """Return a text as the id of a task; different texts have different ids."""
    plain = _UNSAFE.sub("_", text).lstrip(".")
    if plain == text and 0 < len(text) <= 200:
        return text
    return f"{plain[:180]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def own_of(metadata: Mapping[str, Any]) -> tuple[Task, Result] | None:
    """Return the task and the result that an export has left in metadata; None if it has not."""
    try:
        found: Any = metadata[OWN]
        return msgspec.convert(found["task"], Task), msgspec.convert(found["result"], Result)
    except (KeyError, TypeError, msgspec.ValidationError):
        return None


_NOT_EXPORTED = ("env", "files", "mcp_servers")  # they may have secrets


def own_metadata(task: Task, result: Result) -> dict[str, Any]:
    """Return what `own_of` reads: everything of an attempt but what its task gives the agent."""
    bare = msgspec.structs.replace(task, env={}, files={}, mcp_servers=())
    return {OWN: {"task": msgspec.to_builtins(bare), "result": msgspec.to_builtins(result)}}


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
