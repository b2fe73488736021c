"""Runs and resumes a fleet for the command line: `run_fleet` and `resume_fleet`.

Everything that is wrong with the options, agents, tasks or RUN is reported before anything runs.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from accord.client.budget import LIMITS, Budget
from accord.errors import AccordError
from accord.text.excerpt import one_line
from accord_fleet.agent_words import agents_from_words, why_not_startable
from accord_fleet.agents import named_warnings
from accord_fleet.dataset.dataset import Dataset
from accord_fleet.dataset.run_file import RUN
from accord_fleet.dataset.writer import DatasetWriter
from accord_fleet.engines.local import engine_for, why_not_usable
from accord_fleet.gateway.providers import Provider, providers_of, read_providers
from accord_fleet.machine import secrets_of
from accord_fleet.plan import Plan, settings_for
from accord_fleet.progress import JsonProgress, LineProgress
from accord_fleet.redaction import why_not_redacted
from accord_fleet.run import Control, RunObserver, run_plan, stopped_by_signals
from accord_fleet.sandbox.bubblewrap import any_workspace, sandbox_host, why_not_shown
from accord_fleet.sandbox.settings import SandboxMode, SandboxSettings, why_not_isolated
from accord_fleet.tasks.read import CheckedTasks, check_permissions, check_tasks
from accord_fleet.tasks.rows import read_defaults
from accord_fleet.types import AgentSpec, ClusterLost, FleetError, LimitName, Permissions
from accord_trace.summary import counted

# What options mean.


class GuardOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the options say."""

    sandbox: SandboxMode = "off"
    read: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    providers: Path | None = None

    def settings(
        self, agents: Sequence[AgentSpec], *, is_local: bool, out: str | None = None
    ) -> tuple[SandboxSettings | None, tuple[Provider, ...], list[str]]:
        """Return the sandbox, the providers, and everything that is wrong with them.

        `out` is the folder of the results. On a cluster, its machines are checked when they start.
        """
        errors: list[str] = []
        sandbox = self._sandbox(errors, is_local=is_local, out=out)
        errors += why_not_isolated(sandbox, agents)
        providers: tuple[Provider, ...] = ()
        try:
            if self.providers is not None:
                providers = read_providers(self.providers)
            names = {agent.name: agent.provider for agent in agents if agent.provider is not None}
            for provider in providers_of(names, providers).values():
                if is_local:
                    provider.key_value(os.environ)
        except AccordError as error:
            errors.append(str(error))
        return sandbox, providers, errors

    def _sandbox(
        self, errors: list[str], *, is_local: bool, out: str | None
    ) -> SandboxSettings | None:
        if self.sandbox == "off" and not self.read and not self.allow_hosts:
            return None
        home = os.path.expanduser("~")  # noqa: PTH111  # a text
        read = tuple(
            f"~/{path.removeprefix(f'{home}/')}" if path.startswith(f"{home}/") else path
            for path in self.read  # the shell has expanded `~`; on a cluster the home is another
        )
        settings = SandboxSettings(mode=self.sandbox, read=read, allow_hosts=self.allow_hosts)
        if self.sandbox == "off":
            option = "--sandbox-read" if self.read else "--sandbox-allow"
            errors.append(f"{option} needs --sandbox")
            return settings
        wrong = settings.errors()
        errors += wrong
        if is_local:
            try:
                home = sandbox_host().home
            except AccordError as error:
                errors.append(str(error))
            if not wrong:
                results = None if out is None or "://" in out else os.path.realpath(out)
                errors += why_not_shown(settings, home, any_workspace(), results)
        return settings


def isolation_lines(sandbox: SandboxSettings | None, *, is_local: bool) -> list[str]:
    """Return what is isolated and what is not, as lines for the terminal."""
    if sandbox is None or sandbox.mode == "off":
        return [
            "Isolation: each attempt has its own folder and process group. There is no sandbox:"
            " agents can do what you can (--sandbox)."
        ]
    network = {
        "models": ", ".join(("the model gateway", *sandbox.allow_hosts)) + " only",
        "no-network": "off",
        "network": "everything that the machine reaches",
    }[sandbox.mode]
    lines = [
        "Isolation: bubblewrap. Only the workspace is writable; the home and /tmp are private;"
        f" network: {network}.",
        "Not limited by cgroups: memory and processes are watched and then ended. Processors are"
        " not limited.",
    ]
    if not is_local:
        return lines
    host = sandbox_host()
    if host.is_root:
        lines.append("Not isolated: you are root, so the kernel does not limit processes.")
    if "--disable-userns" not in host.namespaces:
        lines.append("Not isolated: agents can make user namespaces (bubblewrap before 0.8).")
    return lines


def progress_for(run: str, *, as_json: bool = False) -> RunObserver:
    """Return what shows a run: JSON on stdout, or a screen or lines on stderr."""
    if as_json:
        return JsonProgress(run, sys.stdout)
    if not sys.stderr.isatty():
        return LineProgress(run, sys.stderr)
    # `rich` is needed at a terminal only.
    from rich.console import Console

    from accord_fleet.progress_screen import ScreenProgress

    console = Console(stderr=True)
    return ScreenProgress(run, console) if console.is_terminal else LineProgress(run, sys.stderr)


_NAMES: tuple[LimitName, ...] = get_args(LimitName)
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30}


def words_of_budget(text: str | None) -> list[str]:
    """Return the limits of `--budget` as words for `limits_from_words`.

    An attempt has one session, so that limits of a turn and of a session are those of the attempt,
    except for its time. Raises `ValueError` for what a fleet does not limit.
    """
    words: list[str] = []
    for budget in () if text is None else Budget.parse(text):
        for name in LIMITS:
            value = budget.limit(name)
            if value is None:
                continue
            seconds = "turn_s" if budget.per == "turn" else "wall_s"
            if budget.per == "day":
                raise ValueError(f"expected limits of a turn or session, got {name}/day")
            if name == "cost" and budget.currency != "USD":
                raise ValueError(
                    f"expected a cost without a currency, got {budget.currency}: it is that of the"
                    " prices, or of the agent"
                )
            words.append(f"{seconds if name == 'seconds' else name}={value:.15g}")
    return words


def limits_from_words(words: Iterable[str]) -> tuple[dict[LimitName, float | None], list[str]]:
    """Return the limits of words such as `turn_s=60` and `memory_bytes=2g`, and every error."""
    found: dict[LimitName, float | None] = {}
    errors: list[str] = []
    for word in words:
        try:
            name, value = _limit(word)
        except FleetError as error:
            errors.append(f"--limit {word}: {error}")
        else:
            found[name] = value
    return found, errors


def _limit(word: str) -> tuple[LimitName, float | None]:
    name, equals, text = word.partition("=")
    if name not in _NAMES or not equals:
        raise FleetError(f"expected NAME=VALUE with a name of {', '.join(_NAMES)}")
    text = text.strip().lower()
    if text == "none":
        return name, None
    unit = _UNITS.get(text[-1:], 1) if name.endswith("_bytes") else 1
    try:
        value = float(text[:-1] if unit > 1 else text) * unit
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise FleetError(f"expected a number above 0 or `none`, got {text!r}")
    return name, (value if name in ("turn_s", "wall_s", "cost") else int(value))


# What a run that died before it had a plan has left.
_BEGUN = {"lock", "lock.json", "tasks.jsonl"}
_NAMED = 3


def why_not_a_run(out: str, *, is_new: bool = False) -> str | None:
    """Return why a run cannot be stored at a path: a file, or a folder with files of others.

    None if it can, or if it is an address. A folder with a run is wrong with `is_new` only: what
    begins a run refuses it, and says whether it has the same tasks.
    """
    scheme, separator, place = out.partition("://")
    if separator and scheme not in ("file", "local"):
        return None
    if not out.strip():
        return "expected a folder or an address, got nothing"
    folder = Path(place if separator else out)
    try:
        if (folder / RUN).is_file():
            return f"{out}: expected a new or empty folder, it has a run" if is_new else None
        names = sorted(os.listdir(folder))  # noqa: PTH208  # names only
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return f"{out}: expected a folder, it is a file"
    except OSError as error:
        return f"{out}: expected a folder that can be read: {error.strerror}"
    names = [name for name in names if not name.endswith(".tmp")]
    if not names or ("lock" in names and _BEGUN.issuperset(names)):
        return None
    shown = ", ".join(one_line(name, 40) for name in names[:_NAMED])
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{out}: expected a new or empty folder, it has other files: {shown}{more}"


def recovered_lines(dataset: DatasetWriter) -> Iterator[str]:
    """Yield lines about what is done, and what the run before has left."""
    found = dataset.recovered
    total = dataset.plan.total
    yield f"{len(dataset):,} of {total:,} attempts have a result; {total - len(dataset):,} to run"
    if found.cancelled:
        yield f"{found.cancelled:,} cancelled attempts are run again"
    if found.from_journals:
        yield f"the run before ended early; {found.from_journals:,} results were recovered"
    if found.torn:
        yield f"{found.torn:,} incomplete results were dropped; their attempts are run again"
    if found.lost:
        yield (
            f"{found.lost:,} attempts began and may have changed something outside their workspace;"
            " they are lost, and repeated only with --repeat-lost"
        )
    if found.repeated:
        yield f"{found.repeated:,} lost attempts are run again"
    if found.twice:
        yield f"{found.twice:,} second results of attempts were dropped"


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
    if plan.imported:
        logs = ", ".join(plan.imported)
        raise FleetError(f"The results were imported from {logs}: a log cannot be resumed here")
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
