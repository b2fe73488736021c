"""A run against a component of a chain: all scenarios in each version, several at a time."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Protocol, TypeVar

from accord.errors import TransportError
from accord_conformance.harness import Advisory, NoResponse, NotExercised, Scenario
from accord_conformance.reports.report import Report, RunResult, ScenarioResult
from accord_conformance.traffic.message import Side

MAX_CONNECTIONS = 4  # scenarios at a time
_OVER_BUDGET = "the time budget was exceeded"


class ChainContext(Protocol):
    """What a run needs of the context of a scenario."""

    @property
    def has_exited(self) -> bool:
        """Whether the program under test has disconnected, and the scenario did not expect it."""
        ...

    async def aclose(self) -> None:
        """Stop the programs that the scenario started."""
        ...


ContextT = TypeVar("ContextT", bound=ChainContext)


class ChainRun(Generic[ContextT]):
    """Runs scenarios, each with a context that `make_context` returns.

    `probe` returns why a version is not supported, or an empty text; it raises `TransportError` if
    the program cannot be started. `on_start` is called when a scenario begins, and `on_result` when
    it has ended. A run that takes longer than `budget_s` stops then.
    """

    def __init__(
        self,
        side: Side,
        scenarios: Sequence[Scenario[ContextT]],
        make_context: Callable[[Scenario[ContextT], int, Report], ContextT],
        probe: Callable[[int, Report], Awaitable[str]],
        *,
        subject: str = "",
        budget_s: float | None = None,
        on_start: Callable[[int, str], None] = lambda _, __: None,
        on_result: Callable[[ScenarioResult], None] = lambda _: None,
    ) -> None:
        self.side: Side = side
        self.scenarios = scenarios
        self.total = 0
        self.result = RunResult(subject)
        self._make_context = make_context
        self._probe = probe
        self._budget_s = budget_s
        self._on_start = on_start
        self._on_result = on_result

    async def run(self, versions: Sequence[int]) -> RunResult:
        """Run all scenarios; raise `TransportError` if the program cannot be started."""
        began = time.monotonic()
        limit = asyncio.timeout(self._budget_s)
        try:
            async with limit:
                for version in versions:
                    await self._run_version(version)
        except TimeoutError:
            if not limit.expired():
                raise
            self.result.exceeded_budget_s = self._budget_s
        self.result.seconds = time.monotonic() - began
        return self.result

    async def _run_version(self, version: int) -> None:
        report = Report(subject=self.result.subject, side=self.side, version=version)
        self._on_start(version, "handshake")
        if why := await self._probe(version, report):
            self.result.unsupported[version] = why
            if any(found.failed for found in report.rules.values()):
                self.result.reports.append(report)
            return
        self.result.reports.append(report)
        waiting = [one for one in self.scenarios if version in one.versions]
        self.total += len(waiting)
        async with asyncio.TaskGroup() as group:
            for _ in range(MAX_CONNECTIONS):
                group.create_task(self._run_waiting(waiting, version, report))

    async def _run_waiting(
        self, waiting: list[Scenario[ContextT]], version: int, report: Report
    ) -> None:
        while waiting:
            await self._run_scenario(waiting.pop(0), version, report)

    async def _run_scenario(
        self, scenario: Scenario[ContextT], version: int, report: Report
    ) -> None:
        self._on_start(version, scenario.name)
        began = time.monotonic()
        result = ScenarioResult(
            scenario=scenario.name, about=scenario.about, version=version, outcome="finished"
        )
        context = self._make_context(scenario, version, report)
        try:
            try:
                await scenario.run(context)
            finally:
                result.disconnected = context.has_exited
                await context.aclose()
        except Exception as error:  # noqa: BLE001  # an error in the kit does not end the run
            _record(result, error)
        except asyncio.CancelledError:
            result.outcome, result.reason = "unfinished", _OVER_BUDGET
            raise
        finally:
            result.seconds = time.monotonic() - began
            if result.disconnected and result.outcome in ("finished", "not exercised"):
                result.outcome, result.reason = "unfinished", f"the {self.side} disconnected"
            self.result.scenario_results.append(result)
            self._on_result(result)


def _record(result: ScenarioResult, error: Exception) -> None:
    """Record how a scenario ended."""
    match error:
        case NotExercised():
            result.outcome, result.reason = "not exercised", str(error)
        case Advisory():
            result.outcome = "wrong" if error.is_failure else "advised"
            result.reason, result.advice, result.frames = str(error), error.advice, error.frames
        case NoResponse() | TransportError():
            result.outcome, result.reason = "unfinished", str(error)
        case _:
            result.outcome, result.reason = "error in the kit", repr(error)
            result.traceback = "".join(traceback.format_exception(error))
