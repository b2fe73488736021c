"""A run against a component of a chain: all scenarios in each version, several at a time."""

from __future__ import annotations

import asyncio
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from accord.errors import TransportError
from accord_conformance.chain.line import same_bytes, same_value, text_of
from accord_conformance.harness import (
    Advisory,
    Field,
    NoResponse,
    NotExercised,
    RawHop,
    Scenario,
    SecretMask,
    describe_exit,
    last_stderr_lines,
)
from accord_conformance.judges.base import make_finding
from accord_conformance.reports.report import Report, RunResult, ScenarioResult
from accord_conformance.rules.manifest import requirements
from accord_conformance.traffic.message import Frame, Side

MAX_CONNECTIONS = 4  # scenarios at a time
_SHOWN_BYTES = 300
_OVER_BUDGET = "the time budget was exceeded"


class ChainContext(ABC):
    """A running scenario: what it finds about the program under test goes into a report.

    `line_rules` are judged at the end of each connection, in addition to the rules of the scenario.
    """

    def __init__(
        self,
        scenario: Scenario[Any],
        version: int,
        report: Report,
        by: Side,
        line_rules: Sequence[str],
    ) -> None:
        self.scenario = scenario
        self.version = version
        self.may_exit = False  # after what the scenario has done
        self._report = report
        self._by: Side = by
        self._line_rules = line_rules

    @property
    @abstractmethod
    def has_exited(self) -> bool:
        """Whether the program under test has disconnected, and the scenario did not expect it."""

    @abstractmethod
    async def aclose(self) -> None:
        """Stop the programs that the scenario started, and judge whole connections."""

    def add(
        self, rule: str, passed: bool, *seen: Frame | None, expected: str = "", got: str = ""
    ) -> None:
        """Add a finding, unless the rule is not of this version."""
        assert rule in (*self.scenario.rules, *self._line_rules), f"{self.scenario.name}: {rule}"
        if self.version in requirements()[rule].versions:
            where = self.scenario.name
            finding = make_finding(
                rule, passed, self._by, *seen, expected=expected, got=got, where=where
            )
            self._report.add(finding)

    def judge_frames(self, rule: str, wrong: Sequence[Frame], expected: str, got: str) -> None:
        """Add a finding for each frame that breaks a rule, or one that the rule was obeyed."""
        for frame in wrong:
            self.add(rule, False, frame, expected=expected, got=got)
        if not wrong:
            self.add(rule, True)

    def same(
        self, rule: str, text: bytes | None, found: Field, before: Frame, after: Frame
    ) -> None:
        """Judge that the value is the same, and by R-PROXY-20 that the bytes are."""
        same = same_value(text, found)
        expected, got = shown(text_of(text)), shown(text_of(found))
        self.add(rule, same, before, after, expected=expected, got=got)
        if same and "R-PROXY-20" in self.scenario.rules:
            equal = same_bytes(text, found)
            self.add("R-PROXY-20", equal, before, after, expected=expected, got=got)


async def _nothing(_: object) -> None:
    return


# The context in which a version is tried out.
HANDSHAKE: Scenario[Any] = Scenario(name="handshake", about="", run=_nothing)


async def describe_silence(hop: RawHop, silence: NoResponse) -> str:
    """Describe why `initialize` got no response: how the program exited, and its last words."""
    ended = await hop.exit_error() if hop.is_closed else None
    last = last_stderr_lines(ended, SecretMask({}))
    parts = [f"initialize failed: {silence}", describe_exit(ended), *last[-1:]]
    return "; ".join(part for part in parts if part)


def shown(text: bytes) -> str:
    """Return a text for a report, shortened."""
    words = text.decode("utf-8", "replace")
    return words if len(words) <= _SHOWN_BYTES else f"{words[:_SHOWN_BYTES]}…"


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
