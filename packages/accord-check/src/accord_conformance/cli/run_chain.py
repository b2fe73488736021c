"""What `accord check proxy` and `accord check conductor` have in common."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import click

from accord.errors import TransportError
from accord.local.run import run_program
from accord_conformance.chain.run import ChainContext, ChainRun
from accord_conformance.cli.progress import Progress
from accord_conformance.cli.run_options import RunOptions, finite
from accord_conformance.harness.raw_hop import Tape
from accord_conformance.harness.scenario import Scenario
from accord_conformance.harness.traces import write_frames
from accord_conformance.reports.report import Report
from accord_conformance.reports.run_result import RunResult
from accord_conformance.rules.selection import UnknownName, select_scenarios
from accord_conformance.traffic.frame import Side

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
ContextT = TypeVar("ContextT", bound=ChainContext)

_SECONDS = click.FloatRange(0, min_open=True)
_OPTIONS = (
    click.option(
        "--timeout",
        type=_SECONDS,
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        help="Time limit for each message.",
    ),
    click.option(
        "--budget",
        type=_SECONDS,
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
