"""Prints attempts at a task (`accord fleet show`) and how far a run is (`accord fleet status`)."""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from accord.text.excerpt import one_line, visible
from accord_fleet.dataset.dataset import Dataset, RunStatus, run_status
from accord_fleet.progress import clock_time
from accord_fleet.report.summary import (
    OUTCOMES,
    command_for_trace,
    failure_kind,
    money,
    number,
    outcome_of,
)
from accord_fleet.tasks.problems import closest
from accord_fleet.types import FleetError, Result, Task, Usage, Verdict
from accord_terminal.toolkit.text import table_lines
from accord_trace.summary import counted, duration

# Attempts.

_SHOWN_LINES = 60  # of one text
_SHOWN_CHARACTERS = 2000  # of one line
_NO_RESULT = 3


def show_attempts(
    run: str,
    task: str,
    *,
    agent: str | None,
    attempt: int | None,
    as_json: bool,
    save: Path | None = None,
) -> int:
    """Print one attempt at a task, or the list of them; return the exit status.

    With `save`, write the recording of one attempt to a file instead. Raise `FleetError` if the run
    does not have the task or the agent, or a recording to save.
    """
    dataset = Dataset.open(run)
    found = _task(dataset, task)
    names = [spec.name for spec in dataset.plan.agents]
    if agent is not None and agent not in names:
        raise FleetError(f"{run}: expected an agent of the run ({', '.join(names)}), got {agent!r}")
    results = [
        result
        for result in dataset.results(tasks=[task])
        if agent in (None, result.agent) and attempt in (None, result.attempt)
    ]
    results.sort(key=lambda result: (names.index(result.agent), result.attempt))
    if save is not None:
        _save(dataset, results, save)
    elif as_json:
        click.echo(msgspec.json.encode({"task": found, "results": results}))
    elif not results:
        click.echo(f"{task} has no such result yet: `accord fleet status` shows how far the run is")
    else:
        width = shutil.get_terminal_size().columns
        lines = (
            attempt_lines(dataset, found, results[0])
            if len(results) == 1
            else _list_lines(dataset, results, width)
        )
        for line in lines:
            click.echo(line)
    return 0 if results else _NO_RESULT


def _save(dataset: Dataset, results: Sequence[Result], file: Path) -> None:
    if len(results) != 1:
        raise FleetError(
            f"--save: expected one attempt, got {len(results)}; choose one with --agent, --attempt"
        )
    try:
        recording = dataset.read_trace(results[0])
    except FileNotFoundError:
        raise FleetError("--save: the attempt was not recorded") from None
    try:
        file.write_bytes(recording)
    except OSError as error:
        raise FleetError(f"--save {file}: {error.strerror}") from None


def attempt_lines(dataset: Dataset, task: Task, result: Result) -> Iterator[str]:
    """Yield the lines for a person; what agents wrote cannot hide or turn other text."""
    yield f"{_title(result)}: {_ending(result)}"
    yield f"  {_times(result)}"
    if spent := _spent(result.usage):
        yield f"  {spent}"
    yield f"  {counted(result.tool_calls, 'tool call')}, on {one_line(result.machine, 80)}"
    if task.tags:
        yield f"  tags: {', '.join(one_line(tag, 80) for tag in task.tags)}"
    for turn, prompt in enumerate(task.prompts, 1):
        yield from _section("Prompt" if len(task.prompts) == 1 else f"Prompt {turn}", prompt)
    if result.failure is not None:
        yield from _section("Failure", result.failure.message)
    yield from _section("Answer", result.answer)
    if result.verdict is not None:
        yield from _verdict(result.verdict)
    yield from _section(f"Changes ({counted(len(result.files_changed), 'file')})", result.diff)
    yield from _section("End of stderr", result.stderr)
    if result.trace is not None:
        place = f"{dataset.address.rstrip('/')}/{result.trace}"
        yield ""
        command = command_for_trace(place, result.task, result.agent, result.attempt)
        yield f"Messages: {one_line(command)}"


def _task(dataset: Dataset, name: str) -> Task:
    names: list[str] = []
    for task in dataset.tasks():
        if task.id == name:
            return task
        names.append(task.id)
    near = closest(name, names)
    hint = "" if near is None else f"; the closest is {near!r}"
    raise FleetError(f"{dataset.address}: expected the id of a task of the run, got {name!r}{hint}")


def _list_lines(dataset: Dataset, results: Sequence[Result], width: int) -> Iterator[str]:
    head = ["agent", "attempt", "outcome", "time", "cost"]
    rows = [
        [
            one_line(result.agent, 60),
            str(result.attempt),
            _ending(result),
            duration(result.times.wall_s),
            _cost(result.usage),
        ]
        for result in results
    ]
    last = len(head) if any(row[-1] for row in rows) else -1
    yield from table_lines([*head[:last]], [row[:last] for row in rows], width, names=(0, 2))
    first = results[0]
    words = ["--agent", first.agent]
    if sum(result.agent == first.agent for result in results) > 1:
        words += ["--attempt", str(first.attempt)]
    yield ""
    shown = shlex.join(["accord", "fleet", "show", dataset.address, first.task, *words])
    yield f"One of them: {one_line(shown)}"


def _title(result: Result) -> str:
    attempt = f", attempt {result.attempt}" if result.attempt > 1 else ""
    return f"{one_line(result.task, 200)} by {one_line(result.agent, 100)}{attempt}"


def _ending(result: Result) -> str:
    """Return the status and the outcome, such as `finished, not passed`."""
    outcome = outcome_of(result)
    if result.status == "finished":
        return f"finished, {OUTCOMES[outcome]}"
    return failure_kind(result, outcome) or result.status


def _times(result: Result) -> str:
    times = result.times
    parts = [
        f"{name} {duration(seconds)}"
        for name, seconds in (
            ("workspace", times.workspace_s),
            ("start", times.start_s),
            ("turns", sum(times.turns_s)),
            ("grader", times.grading_s),
        )
        if seconds >= 0.001
    ]
    return f"{duration(times.wall_s)}" + (f" ({', '.join(parts)})" if parts else "")


def _cost(usage: Usage) -> str:
    return "" if usage.cost is None else money(usage.cost, usage.currency)


def _spent(usage: Usage) -> str:
    tokens = "" if usage.total_tokens is None else f"{usage.total_tokens:,} tokens"
    if usage.input_tokens is not None and usage.output_tokens is not None:
        tokens += f" ({usage.input_tokens:,} in, {usage.output_tokens:,} out)"
    return ", ".join(filter(None, (tokens, _cost(usage))))


def _verdict(verdict: Verdict) -> Iterator[str]:
    said = "grader error" if verdict.error is not None else "no verdict"
    if verdict.error is None and verdict.passed is not None:
        said = "passed" if verdict.passed else "not passed"
    score = "" if verdict.score is None else f", score {verdict.score:g}"
    spent = _spent(verdict.usage)
    used = f" (the grader used {spent})" if spent else ""
    details = msgspec.json.encode(verdict.details).decode() if verdict.details else ""
    parts = [part for part in (verdict.error, verdict.reason, details) if part]
    yield from _section(f"Verdict: {said}{score}{used}", "\n".join(parts), always=True)


def _section(title: str, text: str, *, always: bool = False) -> Iterator[str]:
    lines = visible(text.strip("\n")).split("\n") if text.strip() else []
    if not lines and not always:
        return
    yield ""
    yield f"{title}:" if lines else title
    for line in lines[:_SHOWN_LINES]:
        yield f"  {one_line(line, _SHOWN_CHARACTERS)}".rstrip()
    if len(lines) > _SHOWN_LINES:
        yield f"  … {counted(len(lines) - _SHOWN_LINES, 'more line')}: see --json"


_FOLLOW_S = 5.0
_REMAIN = 3


def show_status(run: str, *, as_json: bool, follow: bool) -> int:
    """Print the status, with `follow` until the run has ended; return the exit status."""
    dataset = Dataset.open(run)
    while True:
        status = run_status(dataset)
        if as_json:
            click.echo(msgspec.json.encode(status))
        else:
            for line in status_lines(status):
                click.echo(line)
        if not follow or status.state != "running":
            return _REMAIN if status.remaining else 0
        if not as_json:
            click.echo()
        time.sleep(_FOLLOW_S)


def status_lines(status: RunStatus) -> Iterator[str]:
    """Yield the lines for a person; the table is as wide as the terminal at most."""
    yield f"{status.run}: {_state(status)}"
    share = f" ({100 * status.done // status.total} %)" if status.total else ""
    results = counted(status.total, "result")
    yield f"  {status.done:,} of {results}{share}, {_remaining(status)}"
    if status.per_second is not None:
        yield f"  {_speed(status, status.per_second)}"
    if status.cost or status.tokens:
        costs = ", ".join(money(cost, currency) for currency, cost in sorted(status.cost.items()))
        reported = f" (reported by {counted(status.with_cost, 'result')})" if costs else ""
        tokens = f"{status.tokens:,} tokens" if status.tokens else ""
        yield f"  {', '.join(filter(None, [tokens, costs]))}{reported}"
    finished = status.statuses.get("finished", 0)
    if status.done:
        yield ""
        yield f"  {finished:>9,} finished"
    for failure in status.failures:
        reason = f": {failure.reason}" if failure.reason else ""
        yield f"  {failure.count:>9,} {failure.status}{reason}"
    if status.done:
        yield ""
        yield from _table(status, shutil.get_terminal_size().columns)


def _state(status: RunStatus) -> str:
    writer = status.writer
    if writer is not None:
        since = datetime.fromtimestamp(writer.started, UTC).strftime("%Y-%m-%d %H:%M UTC")
        return f"running since {since} (process {writer.pid} on {writer.machine})"
    if status.state == "stopped":
        return f"stopped; continue it with `accord fleet resume {shlex.quote(status.run)}`"
    return "ended"


def _remaining(status: RunStatus) -> str:
    if not status.remaining:
        return "none remain"
    remain = "1 remains" if status.remaining == 1 else f"{status.remaining:,} remain"
    cancelled = status.statuses.get("cancelled", 0)
    return f"{remain} ({cancelled:,} cancelled)" if cancelled else remain


def _speed(status: RunStatus, rate: float) -> str:
    shown = f"{rate:,.1f} results/s" if rate >= 1 else f"{rate * 60:,.1f} results/min"
    if not status.left_s:
        return shown
    at = datetime.fromtimestamp(time.time() + status.left_s).astimezone()
    return f"{shown}, {clock_time(status.left_s)} left (until {at:%d %b %H:%M})"


def _table(status: RunStatus, width: int) -> Iterator[str]:
    head = ["agent", "done", "finished", "passed", "not passed", "cost"]
    rows = [
        [
            one_line(name, 40),
            *map(number, (agent.done, agent.finished, agent.passed, agent.not_passed)),
            ", ".join(money(cost, currency) for currency, cost in sorted(agent.cost.items())),
        ]
        for name, agent in status.agents.items()
    ]
    last = len(head) if status.cost else -1
    lines = table_lines(head[:last], [row[:last] for row in rows], width - 2)
    return (f"  {line}" for line in lines)
