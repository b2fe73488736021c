"""`accord check proxy`: starts a proxy and plays its conductor, with an editor and an agent."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import click

from accord.errors import TransportError
from accord.local.run import run_program
from accord.transports.base import Transport
from accord.transports.process import process
from accord_conformance.chain.detect import ProxyProbe
from accord_conformance.chain.dialect import DIALECTS
from accord_conformance.chain.proxy_context import ProxyContext, ProxySettings
from accord_conformance.chain.proxy_scenarios import proxy_scenarios
from accord_conformance.chain.run import ChainRun
from accord_conformance.cli.progress import Progress
from accord_conformance.cli.run_options import (
    RunOptions,
    finite,
    report_options,
    selection_options,
)
from accord_conformance.harness.raw_hop import Tape
from accord_conformance.harness.traces import write_frames
from accord_conformance.reports.run_result import RunResult
from accord_conformance.rules.selection import UnknownName, select_scenarios

__all__ = ("command",)

_SECONDS = click.FloatRange(0, min_open=True)


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
@click.option(
    "--timeout",
    type=_SECONDS,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for each message.",
)
@click.option(
    "--budget",
    type=_SECONDS,
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of the whole run.",
)
@report_options
@click.argument("arguments", metavar="-- COMMAND...", nargs=-1, required=True)
def command(
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
    settings = ProxySettings(answer_s=finite("--timeout", timeout), changes=frozenset(changes))
    options = RunOptions.check(reports)
    faults: list[str] = []
    numbers = itertools.count(1)

    def connect(noise: Callable[[str], None]) -> Transport:
        return process(*arguments, on_stdout_noise=noise)()

    def closed(name: str, tape: Tape) -> None:
        if options.trace is None or faults:
            return
        try:
            write_frames(options.trace, f"{next(numbers)}-{name}", tape.frames)
        except OSError as error:
            faults.append(f"Cannot write into {options.trace}: {error.strerror}")

    probe = ProxyProbe(connect, settings, DIALECTS.get(dialect or ""), closed)
    versions = (1, 2) if version == "both" else (int(version),)
    result = _run(probe, " ".join(arguments), versions, only, finite("--budget", budget))
    return options.finish(result, faults)


def _run(
    probe: ProxyProbe, subject: str, versions: tuple[int, ...], only: tuple[str, ...], budget: float
) -> RunResult:
    try:
        chosen = select_scenarios(only, proxy_scenarios())
    except UnknownName as unknown:
        raise click.UsageError(str(unknown)) from None
    progress = Progress(sys.stderr, budget_s=budget)

    def begun(version: int, name: str) -> None:
        progress.total = run.total
        progress.on_start(version, name)

    run: ChainRun[ProxyContext] = ChainRun(
        "proxy",
        chosen,
        probe.make_context,
        probe,
        subject=subject,
        budget_s=budget,
        on_start=begun,
        on_result=progress.on_result,
    )

    async def play() -> RunResult:
        async with progress:
            return await run.run(versions)

    try:
        return run_program(play())
    except TransportError as error:
        raise click.UsageError(f"The proxy cannot be started: {error}") from None
