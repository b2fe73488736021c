"""Runs a fleet for the command line."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import textwrap
import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import click
import msgspec

from accord_fleet.agent_words import agents_from_words, why_not_startable
from accord_fleet.attempt_names import named_warnings
from accord_fleet.command.guard_options import GuardOptions, isolation_lines
from accord_fleet.command.out_folder import why_not_a_run
from accord_fleet.command.recovered import recovered_lines
from accord_fleet.control import Control
from accord_fleet.dataset.dataset import Dataset
from accord_fleet.dataset.writer import DatasetWriter
from accord_fleet.engines.choice import engine_for, why_not_usable
from accord_fleet.engines.ray_lost import ClusterLost
from accord_fleet.errors import FleetError
from accord_fleet.guards import secrets_of
from accord_fleet.interrupts import stopped_by_signals
from accord_fleet.limit_words import limits_from_words
from accord_fleet.plan import Plan
from accord_fleet.progress.choice import progress_for
from accord_fleet.redaction import why_not_redacted
from accord_fleet.run import run_plan
from accord_fleet.run_observer import RunObserver
from accord_fleet.run_setup import settings_for
from accord_fleet.tasks.check import check_permissions
from accord_fleet.tasks.defaults import read_defaults
from accord_fleet.tasks.read import CheckedTasks, check_tasks
from accord_fleet.types.task import Permissions
from accord_trace.summary import counted

_NOT_FINISHED = 3
_STOPPED = 130


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `accord fleet run`."""

    tasks: str
    agents: Sequence[str]
    out: str
    jobs: int
    defaults: Path | None = None
    attempts: int = 1
    on: str = "local"
    limits: Sequence[str] = ()
    allow: Sequence[str] = ()
    deny: Sequence[str] = ()
    guards: GuardOptions = GuardOptions()
    secrets: Sequence[str] = ()
    first: int | None = None
    check: bool = False
    as_json: bool = False


async def run_fleet(options: RunOptions) -> int:
    """Run all attempts, or only check everything; return the exit status.

    Raise `FleetError` with everything that is wrong, before anything runs.
    """
    agents, errors = agents_from_words(options.agents)
    errors += [error for agent in agents if (error := why_not_startable(agent, options.on))]
    if wrong_engine := why_not_usable(options.on):
        errors.append(wrong_engine)
    is_local = options.on == "local"
    sandbox, providers, wrong = options.guards.settings(agents, is_local=is_local, out=options.out)
    errors += wrong
    if is_local:
        found = (why_not_redacted(name, os.environ) for name in options.secrets)
        errors += [f"--secret: {why}" for why in found if why]
    permissions = Permissions(allow=tuple(options.allow), deny=tuple(options.deny))
    for path, message in check_permissions(permissions):
        errors.append(f"--{path.removeprefix('permissions.').partition('[')[0]}: {message}")
    if why := await asyncio.to_thread(why_not_a_run, options.out, is_new=options.check):
        errors.append(f"--out {why}")
    checked = None
    try:
        checked = await _checked_tasks(options, [agent.name for agent in agents], errors)
    except FleetError as error:
        errors.append(str(error))
    if checked is None:
        raise FleetError("\n".join(errors))
    with checked:
        if errors:
            raise FleetError("\n".join(errors))
        plan = Plan(
            created=time.time(),
            agents=tuple(agents),
            attempts=options.attempts,
            tasks=checked.count,
            digest=checked.digest,
            permissions=permissions,
            sandbox=sandbox,
            providers=providers,
            secrets=tuple(options.secrets),
            jobs=options.jobs,
            engine=options.on,
        )
        if options.check:
            return _checked(plan, options)
        async with await DatasetWriter.create(options.out, plan, checked) as dataset:
            for line in isolation_lines(sandbox, is_local=is_local):
                click.echo(_folded(line), err=True)
            observer = progress_for(options.out, as_json=options.as_json)
            return await _run(dataset, options.out, options.jobs, observer)


def _checked(plan: Plan, options: RunOptions) -> int:
    """Say what would be run; return the exit status."""
    names = [agent.name for agent in plan.agents]
    if options.as_json:
        told = {"tasks": plan.tasks, "agents": names, "attempts": plan.attempts}
        click.echo(msgspec.json.encode({**told, "total": plan.total}))
        return 0
    each = "" if plan.attempts == 1 else f", {plan.attempts:,} attempts each"
    given = f"{counted(plan.tasks, 'task')} for {counted(len(names), 'agent')}"
    click.echo(
        f"{given} ({', '.join(names)}){each}: {counted(plan.total, 'result')}."
        " Nothing is wrong, and nothing was run."
    )
    for line in isolation_lines(plan.sandbox, is_local=plan.engine == "local"):
        click.echo(line)
    return 0


def _folded(line: str) -> str:
    """Return a line folded between words, if a terminal would fold it between letters."""
    if not sys.stderr.isatty():
        return line
    return textwrap.fill(line, shutil.get_terminal_size().columns, break_on_hyphens=False)


async def resume_fleet(
    *, out: str, jobs: int | None, on: str | None, as_json: bool, repeat_lost: bool = False
) -> int:
    """Run the attempts that have no result yet; return the exit status.

    `on` is the engine from now on. Lost attempts are repeated if `repeat_lost`. Raise `FleetError`
    for an engine that cannot be used.
    """
    if on is not None and (error := why_not_usable(on)):
        raise FleetError(error)
    opening = DatasetWriter.resume(
        out, engine=on, repeat_lost=repeat_lost, on_wait=lambda line: click.echo(line, err=True)
    )
    async with await opening as dataset:
        _check_engine(dataset.plan)
        for line in recovered_lines(dataset):
            click.echo(line, err=True)
        observer = progress_for(out, as_json=as_json)
        finished = await asyncio.to_thread(_all_finished, out)
        jobs = jobs or dataset.plan.jobs
        return await _run(dataset, out, jobs, observer, finished=finished)


def _all_finished(address: str) -> bool:
    tables = Dataset.open(address).batches(["status"])
    return all(set(table["status"].to_pylist()) <= {"finished"} for table in tables)


def _check_engine(plan: Plan) -> None:
    """Raise `FleetError` with everything that keeps the engine or its agents from starting."""
    if error := why_not_usable(plan.engine):
        raise FleetError(f"{error}. `accord fleet resume --on ADDRESS` replaces it")
    wrong = [why_not_startable(agent, plan.engine) for agent in plan.agents]
    if errors := [error for error in wrong if error]:
        raise FleetError("\n".join(errors))


async def _checked_tasks(
    options: RunOptions, agents: Sequence[str], errors: list[str]
) -> CheckedTasks:
    """Return the tasks; add what is wrong with the limits to the errors."""
    limits, wrong = limits_from_words(options.limits)
    errors += wrong
    defaults: dict[str, Any] = {}
    if options.defaults is not None:
        defaults = read_defaults(options.defaults)
    if limits:
        defaults["limits"] = {**defaults.get("limits", {}), **limits}
    return await check_tasks(options.tasks, defaults=defaults, agents=agents, first=options.first)


async def _run(
    dataset: DatasetWriter,
    out: str,
    jobs: int,
    observer: RunObserver,
    *,
    finished: bool = True,
) -> int:
    """Run what has no result; return the exit status: 0, 3 (not all finished) or 130 (stopped).

    `finished` says whether all attempts with a result from before finished.
    """
    settings = settings_for(dataset.plan)
    engine = engine_for(dataset.plan, jobs)
    control = Control()
    with named_warnings(secrets_of(settings).text), stopped_by_signals(control, observer.stage):
        try:
            async with aclosing(run_plan(dataset, engine, settings, control, observer)) as results:
                async for result in results:
                    finished = finished and result.status == "finished"
        except ClusterLost as error:
            raise ClusterLost(
                f"{error}\nThe results that arrived are stored. When the cluster is back, "
                f"`accord fleet resume {shlex.quote(out)}` continues; for another one, add "
                "`--on ADDRESS`"
            ) from error
    if control.is_stopping:
        return _STOPPED
    return 0 if finished else _NOT_FINISHED
