"""`accord check proxy` and `accord check conductor`: the kit plays the rest of the chain."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import click

from accord.errors import TransportError
from accord.local.run import run_program
from accord.transports.base import Transport
from accord.transports.process import process
from accord_conformance.chain.conductor_context import (
    AGENT,
    PROXY,
    ConductorProbe,
    ConductorProcess,
    component_names,
)
from accord_conformance.chain.conductor_scenarios import conductor_scenarios
from accord_conformance.chain.line import DIALECTS
from accord_conformance.chain.proxy_context import ProxyProbe, ProxySettings
from accord_conformance.chain.proxy_scenarios import proxy_scenarios
from accord_conformance.chain.run import ChainContext, ChainRun
from accord_conformance.cli.run_options import (
    SECONDS,
    Progress,
    RunOptions,
    finite,
    report_options,
    selection_options,
)
from accord_conformance.harness import Scenario, Tape, write_frames
from accord_conformance.reports.report import Report, RunResult
from accord_conformance.rules.manifest import UnknownName, select_scenarios
from accord_conformance.traffic.message import Side

# What `accord check proxy` and `accord check conductor` have in common.

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
ContextT = TypeVar("ContextT", bound=ChainContext)

_OPTIONS = (
    click.option(
        "--timeout",
        type=SECONDS,
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        help="Time limit for each message.",
    ),
    click.option(
        "--budget",
        type=SECONDS,
        default=600.0,
        show_default=True,
        metavar="SECONDS",
        help="Time limit of the whole run.",
    ),
)


def chain_options(command: CommandT) -> CommandT:
    """Add the options that limit the time."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


class ChainCommand:
    """One run: its options are checked first, and its traces are written while it runs."""

    def __init__(
        self, version: str, timeout: float, budget: float, reports: dict[str, Any]
    ) -> None:
        self.answer_s = finite("--timeout", timeout)
        self._budget_s = finite("--budget", budget)
        self._options = RunOptions.check(reports)
        self._versions = (1, 2) if version == "both" else (int(version),)
        self._faults: list[str] = []
        self._numbers = itertools.count(1)

    def closed(self, name: str, tape: Tape) -> None:
        """Write the frames of a scenario, if traces are wanted."""
        folder = self._options.trace
        if folder is None or self._faults:
            return
        try:
            write_frames(folder, f"{next(self._numbers)}-{name}", tape.frames)
        except OSError as error:
            self._faults.append(f"Cannot write into {folder}: {error.strerror}")

    def run(
        self,
        side: Side,
        scenarios: Sequence[Scenario[ContextT]],
        only: Sequence[str],
        make_context: Callable[[Scenario[ContextT], int, Report], ContextT],
        probe: Callable[[int, Report], Awaitable[str]],
        command: Sequence[str],
    ) -> int:
        """Run the scenarios with these names, show the result, and return the exit status."""
        try:
            chosen = select_scenarios(only, scenarios)
        except UnknownName as unknown:
            raise click.UsageError(str(unknown)) from None
        progress = Progress(sys.stderr, budget_s=self._budget_s)

        def begun(version: int, name: str) -> None:
            progress.total = run.total
            progress.on_start(version, name)

        run: ChainRun[ContextT] = ChainRun(
            side,
            chosen,
            make_context,
            probe,
            subject=" ".join(command),
            budget_s=self._budget_s,
            on_start=begun,
            on_result=progress.on_result,
        )

        async def play() -> RunResult:
            async with progress:
                return await run.run(self._versions)

        try:
            result = run_program(play())
        except TransportError as error:
            raise click.UsageError(f"The {side} cannot be started: {error}") from None
        return self._options.finish(result, self._faults)


# `accord check proxy`: starts a proxy and plays its conductor, with an editor and an agent.


@click.command("proxy", options_metavar="[OPTIONS]")
@selection_options
@click.option(
    "--dialect",
    type=click.Choice(list(DIALECTS)),
    help="The methods of the chain that the proxy knows [default: tried out].",
)
@click.option(
    "--changes",
    metavar="METHOD",
    multiple=True,
    help="A method that the proxy changes or answers on purpose. Repeatable.",
)
@chain_options
@report_options
@click.argument("arguments", metavar="-- COMMAND...", nargs=-1, required=True)
def check_proxy(
    version: str,
    only: tuple[str, ...],
    dialect: str | None,
    changes: tuple[str, ...],
    timeout: float,
    budget: float,
    arguments: tuple[str, ...],
    **reports: Any,
) -> int:
    """Start a proxy as a conductor would, and test it.

    COMMAND starts the proxy, which reads from stdin and writes to stdout. The editor before it and
    the agent after it are played. What the proxy does not change must arrive as it was sent: name
    each method that it changes with --changes.

    Exit status: 0 passed, 1 a MUST rule or a scenario failed, 2 usage error or the proxy does not
    start, 70 error in the kit.
    """
    run = ChainCommand(version, timeout, budget, reports)
    settings = ProxySettings(answer_s=run.answer_s, changes=frozenset(changes))

    def connect(noise: Callable[[str], None]) -> Transport:
        return process(*arguments, on_stdout_noise=noise)()

    probe = ProxyProbe(connect, settings, DIALECTS.get(dialect or ""), run.closed)
    return run.run("proxy", proxy_scenarios(), only, probe.make_context, probe, arguments)


# `accord check conductor`: starts a conductor and plays the client and every component.


@click.command("conductor", options_metavar="[OPTIONS]")
@selection_options
@click.option(
    "--dialect",
    type=click.Choice(list(DIALECTS)),
    default="acp",
    show_default=True,
    help="The methods of the chain that the proxies know.",
)
@chain_options
@report_options
@click.argument("arguments", metavar="-- COMMAND...", nargs=-1, required=True)
def check_conductor(
    version: str,
    only: tuple[str, ...],
    dialect: str,
    timeout: float,
    budget: float,
    arguments: tuple[str, ...],
    **reports: Any,
) -> int:
    """Start a conductor as an editor would, and test it.

    COMMAND starts the conductor with its components: the word {proxy}, once or several times, and
    then {agent}. Each is replaced by a command line that starts a component, which the kit plays.

    Exit status: 0 passed, 1 a MUST rule or a scenario failed, 2 usage error or the conductor does
    not start, 70 error in the kit.
    """
    names = component_names(arguments)
    if names[-1:] != ["agent"] or names.count("agent") != 1 or len(names) == 1:
        raise click.UsageError(f"COMMAND needs the word {PROXY}, then {AGENT}")
    run = ChainCommand(version, timeout, budget, reports)
    probe = ConductorProbe(
        lambda: ConductorProcess(arguments),
        names,
        DIALECTS[dialect],
        answer_s=run.answer_s,
        on_close=run.closed,
    )
    return run.run("conductor", conductor_scenarios(), only, probe.make_context, probe, arguments)
