"""Logs of inspect-ai: a file `.eval` for each agent of a run, and attempts of such files.

inspect-ai reads and writes them, so it must be installed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from accord.text.excerpt import excerpt
from accord_bridges.atif import filled
from accord_fleet.dataset.dataset import Dataset
from accord_fleet.exchange.conversation import Conversation, conversation_of
from accord_fleet.exchange.samples import (
    OWN,
    Sample,
    flat_scores,
    own_metadata,
    own_of,
    plain_name,
    task_id,
)
from accord_fleet.types import (
    Failure,
    FleetError,
    FunctionGrader,
    LimitName,
    Result,
    Status,
    Task,
    Times,
    Usage,
    Verdict,
)

_AT_ONCE = 32
_SCORE = "verdict"
# Limits of fleets by those of inspect-ai; others have no name here.
_LIMITS: dict[str, LimitName] = {
    "time": "wall_s", "working": "wall_s", "token": "tokens", "cost": "cost",
}  # fmt: skip
_LIMIT_TYPES = {"turn_s": "time", "wall_s": "time", "tokens": "token", "cost": "cost"}


def _inspect(module: str) -> Any:
    try:
        return import_module(f"inspect_ai.{module}")
    except ImportError:
        raise FleetError(
            "Logs of inspect-ai need the package inspect-ai: pip install inspect-ai"
        ) from None


# Reading.


def read_inspect_log(path: Path, notes: list[str]) -> Iterator[Sample]:
    """Yield the attempts of a log, also for samples that it should have and does not.

    Raises `FleetError` if the file is no log, and adds to `notes` if the evaluation has not ended.
    """
    log = _inspect("log")
    try:
        header = log.read_eval_log(str(path), header_only=True)
    except Exception as error:  # noqa: BLE001  # whatever a file that is something else makes inspect raise
        raise FleetError(f"{path} is no log of inspect-ai: {excerpt(str(error))}") from None
    given: dict[str, Any] = header.eval.metadata or {}
    if header.status != "success":
        why = f": {excerpt(header.error.message)}" if header.error else ""
        notes.append(f"{path}: the evaluation is marked as {header.status}{why}")
    reader = _Reader(path, header)
    seen: set[tuple[Any, int]] = set()
    for sample in _samples(log, path):
        seen.add((sample.id, sample.epoch))
        yield reader.sample(sample)
    if OWN not in given:
        for name in header.eval.dataset.sample_ids or ():
            for epoch in range(1, (header.eval.config.epochs or 1) + 1):
                if (name, epoch) not in seen:
                    yield reader.missing(name, epoch)
    if not seen and not header.eval.dataset.sample_ids:
        notes.append(f"{path}: the log has no samples")


def _samples(log: Any, path: Path) -> Iterator[Any]:
    if path.suffix != ".eval":
        yield from log.read_eval_log(str(path), resolve_attachments=True).samples or ()
        return
    keys = [(one.id, one.epoch) for one in log.read_eval_log_sample_summaries(str(path))]
    for first in range(0, len(keys), _AT_ONCE):
        yield from log.read_eval_log_samples_by_id(
            str(path), keys[first : first + _AT_ONCE], resolve_attachments="full",
            exclude_fields={"events", "store"},
        )  # fmt: skip


class _Reader:
    """Makes attempts of the samples of one log."""

    def __init__(self, path: Path, header: Any) -> None:
        spec = header.eval
        self._path = path
        self._header = header
        self._dataset = str(spec.task)
        metadata: dict[str, Any] = spec.metadata or {}
        own: dict[str, Any] = metadata.get(OWN) or {}
        args: list[dict[str, Any]] = [spec.solver_args or {}]
        args += [step.params for step in header.plan.steps]
        given: Any = own.get("command") or next(
            (one["command"] for one in args if "command" in one), ()
        )
        words: list[Any] = given.split() if isinstance(given, str) else given
        self._command = tuple(map(str, words))
        program = Path(self._command[0]).name if self._command else str(spec.model)
        self._agent = str(own.get("agent") or plain_name(program))
        self._scorers = [one.name for one in spec.scorers or ()]

    def sample(self, sample: Any) -> Sample:
        scores: dict[str, Any] = sample.scores or {}
        found = own_of(sample.metadata)
        if found is not None:
            task, result = found
            answer = result.answer or sample.output.completion
            result = msgspec.structs.replace(result, answer=answer)
        else:
            task, result = self._task(sample), self._result(sample)
        result = msgspec.structs.replace(
            result, agent=self._agent, attempt=sample.epoch, trace=None
        )
        made = self._made(task, result)
        made.scores = flat_scores({name: score.value for name, score in scores.items()})
        made.reasons = {
            name: score.explanation or score.reason or "" for name, score in scores.items()
        }
        made.verdict = _own_verdict(scores)
        made.is_exported = found is not None
        return made

    def missing(self, name: Any, epoch: int) -> Sample:
        """Return the attempt for a sample that the log lacks."""
        message = f"The log has no result: the evaluation is marked as {self._header.status}"
        task = Task(id=task_id(str(name)), prompts=("(not in the log)",), grader=self._grader())
        result = Result(
            task=task.id, agent=self._agent, attempt=epoch, status="lost",
            failure=Failure(message=message), times=Times(started=_time(self._header.eval.created)),
        )  # fmt: skip
        return self._made(task, result)

    def _made(self, task: Task, result: Result) -> Sample:
        return Sample(
            place=str(self._path), dataset=self._dataset, command=self._command, task=task,
            result=result, scores={},
        )  # fmt: skip

    def _grader(self) -> FunctionGrader | None:
        scorer = self._scorers[0] if self._scorers else None
        return None if scorer is None else FunctionGrader(function=f"inspect_ai:{scorer}")

    def _task(self, sample: Any) -> Task:
        said = [sample.input] if isinstance(sample.input, str) else [
            one.text for one in sample.input if one.role in ("system", "user")
        ]  # fmt: skip
        target = sample.target
        metadata = {**sample.metadata, "sample_id": sample.id}
        return Task(
            id=task_id(str(sample.id)),
            prompts=("\n\n".join(said),),
            grader=self._grader(),
            metadata=metadata if target in ("", []) else {**metadata, "target": target},
        )

    def _result(self, sample: Any) -> Result:
        status: Status = "finished"
        failure: Failure | None = None
        if sample.error is not None:
            status, failure = "failed", Failure(where="turn", message=sample.error.message)
        elif sample.limit is not None:
            kind = sample.limit.type
            text = sample.limit.reason or f"The {kind} limit of {sample.limit.limit:g} was reached"
            status, failure = "limit", Failure(limit=_LIMITS.get(kind), message=text)
        choices = sample.output.choices
        return Result(
            task=task_id(str(sample.id)),
            agent=self._agent,
            attempt=sample.epoch,
            status=status,
            failure=failure,
            stop_reasons=tuple(str(one.stop_reason) for one in choices[:1]),
            answer=sample.output.completion,
            tool_calls=sum(len(getattr(one, "tool_calls", None) or ()) for one in sample.messages),
            usage=_usage(sample.model_usage.values()),
            times=Times(
                started=_time(sample.started_at or self._header.eval.created),
                wall_s=sample.total_time or 0.0,
                turns_s=() if sample.working_time is None else (sample.working_time,),
            ),
        )


def _own_verdict(scores: dict[str, Any]) -> Verdict | None:
    """Return the verdict that an export has written, unless the score was edited since."""
    score = scores.get(_SCORE)
    if score is None or len(scores) > 1 or score.history:
        return None
    try:
        return msgspec.convert((score.metadata or {})[OWN], Verdict)
    except (KeyError, msgspec.ValidationError):
        return None


def _usage(models: Any) -> Usage:
    used = list(models)
    if not used:
        return Usage()
    costs = [one.total_cost for one in used if one.total_cost is not None]
    return Usage(
        input_tokens=sum(
            one.input_tokens + (one.input_tokens_cache_read or 0)
            + (one.input_tokens_cache_write or 0) for one in used
        ),
        output_tokens=sum(one.output_tokens for one in used),
        total_tokens=sum(one.total_tokens for one in used),
        cost=sum(costs) if costs else None,
        currency="USD" if costs else None,
    )  # fmt: skip


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


# Writing.


async def write_inspect_logs(dataset: Dataset, folder: Path) -> list[Path]:
    """Write a log for each agent of a run into a folder; return their paths."""
    writer = _Writer(dataset)
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    paths: list[Path] = []
    for spec in dataset.plan.agents:
        samples: list[Any] = []
        for result in dataset.results():
            if result.agent == spec.name:
                task = writer.tasks[result.task]
                said = await conversation_of(dataset, task, result)
                samples.append(writer.sample(task, result, said))
        log = writer.log(spec.name, list(spec.command), samples)
        stamp = _iso(dataset.plan.created).replace(":", "-")
        path = folder / f"{stamp}_{writer.name}_{plain_name(spec.name)}.eval"
        await asyncio.to_thread(_inspect("log").write_eval_log, log, str(path))
        paths.append(path)
    return paths


class _Writer:
    """Makes samples of attempts."""

    def __init__(self, dataset: Dataset) -> None:
        self.log_module, self.model = _inspect("log"), _inspect("model")
        self.event, self.scorer = _inspect("event"), _inspect("scorer")
        self.messages: Any = import_module("accord_bridges.inspect_messages")
        self.dataset = dataset
        self.plan = dataset.plan
        self.name = plain_name(Path(dataset.address.rstrip("/")).name)
        self.tasks = {task.id: task for task in dataset.tasks()}

    def log(self, agent: str, command: list[str], samples: list[Any]) -> Any:
        log, created = self.log_module, _iso(self.plan.created)
        is_whole = len(samples) == self.plan.tasks * self.plan.attempts
        used = [one.model_usage for one in samples]
        total = self.model.ModelUsage()
        for one in used:
            for usage in one.values():
                total += usage
        ends = [one.completed_at for one in samples if one.completed_at]
        values = [
            one.scores[_SCORE].value for one in samples
            if one.scores and one.scores[_SCORE].value == one.scores[_SCORE].value  # no NaN
        ]  # fmt: skip
        scores = []
        if values:
            metric = log.EvalMetric(name="mean", value=sum(values) / len(values))
            scores = [log.EvalScore(
                name=_SCORE, scorer=_SCORE, scored_samples=len(values),
                unscored_samples=len(samples) - len(values), metrics={"mean": metric},
            )]  # fmt: skip
        return log.EvalLog(
            status="success" if is_whole else "cancelled",
            eval=log.EvalSpec(
                created=created,
                task=self.name,
                solver="accord_fleet",
                model=f"acp/{agent}",
                dataset=log.EvalDataset(
                    name=self.name, samples=len(self.tasks), sample_ids=list(self.tasks)
                ),
                config=log.EvalConfig(epochs=self.plan.attempts),
                scorers=[{"name": _SCORE}] if values else None,
                metadata={OWN: {"agent": agent, "command": command}},
            ),
            results=log.EvalResults(
                total_samples=self.plan.tasks * self.plan.attempts,
                completed_samples=sum(one.error is None for one in samples),
                scores=scores,
            ),
            stats=log.EvalStats(
                started_at=created,
                completed_at=max(ends, default=created),
                model_usage={f"acp/{agent}": total} if any(used) else {},
            ),
            samples=samples,
        )

    def sample(self, task: Task, result: Result, said: Conversation) -> Any:
        log, model, name = self.log_module, self.model, f"acp/{result.agent}"
        messages, events = self._said(result, said)
        usage = _model_usage(self.model, result.usage)
        outputs = [one.output for one in events if one.event == "model"]
        output = outputs[-1] if outputs else model.ModelOutput.from_content(name, "")
        if result.answer and output.completion != result.answer:
            output = model.ModelOutput.from_content(name, result.answer)
        times = result.times
        failure = result.failure or Failure()
        kept = msgspec.structs.replace(result, answer="" if output.completion == result.answer
                                       else result.answer)  # fmt: skip
        limit = error = None
        if result.status == "limit":
            value = getattr(task.limits, failure.limit or "", None) or 0
            kind = _LIMIT_TYPES.get(failure.limit or "", "custom")
            limit = log.EvalSampleLimit(type=kind, limit=value, reason=failure.message)
        elif result.status != "finished":
            part = f"{result.status}: {failure.where}: " if failure.where else f"{result.status}: "
            error = log.EvalError(
                message=part + failure.message, traceback=result.stderr, traceback_ansi=""
            )
        return log.EvalSample(
            id=task.id,
            epoch=result.attempt,
            input="\n\n".join(task.prompts),
            target="",
            messages=messages,
            output=output,
            scores=self._scores(result.verdict),
            metadata=own_metadata(task, kept),
            events=events,
            model_usage={} if usage is None else {name: usage},
            started_at=_iso(times.started),
            completed_at=_iso(times.started + times.wall_s + times.grading_s),
            total_time=times.wall_s + times.grading_s,
            working_time=sum(times.turns_s),
            error=error,
            limit=limit,
        )

    def _scores(self, verdict: Verdict | None) -> dict[str, Any] | None:
        if verdict is None:
            return None
        value = verdict.score
        if verdict.error is not None:
            value = float("nan")  # inspect's value for a score that could not be made
        elif value is None:
            value = float(bool(verdict.passed))
        return {_SCORE: self.scorer.Score(
            value=value,
            explanation=verdict.error or verdict.reason or None,
            reason="scoring_failed" if verdict.error is not None else None,
            metadata={OWN: msgspec.to_builtins(verdict)},
        )}  # fmt: skip

    def _said(self, result: Result, said: Conversation) -> tuple[list[Any], list[Any]]:
        """Return the messages of a conversation, and its model calls and tool calls."""
        name = f"acp/{result.agent}"
        messages: list[Any] = []
        events: list[Any] = []
        at = datetime.fromtimestamp(result.times.started, UTC)
        for prompt, steps in said:
            messages.append(self.model.ChatMessageUser(content=prompt))
            for step in filled(steps):
                output = self.messages.output_of(step, name)
                events.append(self.event.ModelEvent(
                    model=name, input=list(messages), tools=[], tool_choice="auto",
                    config=self.model.GenerateConfig(), output=output, timestamp=at,
                    completed=at, working_start=0.0,
                ))  # fmt: skip
                messages.append(output.message)
                for call in step.calls:
                    failed = call.failure
                    error = None if failed is None else _inspect("tool").ToolCallError(
                        "unknown", failed
                    )  # fmt: skip
                    answer = "" if failed is not None else call.output
                    message = self.model.ChatMessageTool(
                        content=answer, tool_call_id=call.state.id, function=call.name, error=error
                    )
                    messages.append(message)
                    events.append(self.event.ToolEvent(
                        id=call.state.id, function=call.name, arguments=call.arguments,
                        result=answer, error=error, message_id=message.id, timestamp=at,
                        completed=at, working_start=0.0,
                    ))  # fmt: skip
        return messages, events


def _model_usage(model: Any, usage: Usage) -> Any:
    if usage == Usage():
        return None
    is_dollars = usage.currency in (None, "USD")
    return model.ModelUsage(
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        total_tokens=usage.total_tokens or 0,
        total_cost=usage.cost if is_dollars else None,
    )


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
