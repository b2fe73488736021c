"""`pytest --accord-check COMMAND`: a test for each rule of the protocol, from one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from accord.errors import TransportError
from accord.local.run import run_program
from accord.transports.command_line import argv_of
from accord.transports.process import ProcessTransport, process
from accord_conformance.agent.run import AgentRun
from accord_conformance.agent.scenarios import agent_scenarios
from accord_conformance.agent.settings import (
    SETTINGS_FILE,
    InvalidSettings,
    Settings,
    read_settings,
)
from accord_conformance.pytest_plugin.failures import RuleFailed, describe_failures
from accord_conformance.reports.baseline import Known, read_baseline
from accord_conformance.reports.report import Report
from accord_conformance.reports.run_result import RunResult, ScenarioResult, verdict
from accord_conformance.rules.manifest import Requirement
from accord_conformance.rules.selection import UnknownName, validate_skips

_NAME = "accord-check"


class Check(pytest.Collector):
    """The run against the agent, which starts when the first test needs it."""

    settings: Settings
    versions: tuple[int, ...]
    strict: bool
    baseline: Known
    is_created: RunResult | None = None
    _failed: Exception | None = None
    _is_reported = False  # a test has reported that nothing could be tested

    def collect(self) -> Iterator[pytest.Item]:
        """Yield a test for the agent itself, and one for each rule."""
        yield _new(VersionTest, self, name="speaks")
        for version in self.versions:
            for rule in Report(version=version, side="agent").applicable_rules():
                yield _rule_test(self, version, rule)

    @property
    def result(self) -> RunResult:
        """The result of the run; raise `TransportError` if the agent does not start.

        A run that failed is not repeated: it would fail for each rule.
        """
        if self._failed is not None:
            raise self._failed
        if self.is_created is None:
            try:
                self.is_created = run_program(self._run())
                self.is_created.strict, self.is_created.baseline = self.strict, self.baseline
            except Exception as error:
                self._failed = error
                raise
        return self.is_created

    def passed(self) -> RunResult:
        """Return the result of the run; raise `RuleFailed` if nothing could be tested."""
        self._is_reported = True
        try:
            result = self.result
        except TransportError as error:
            raise RuleFailed(f"The agent cannot be started: {error}") from None
        if not result.supported:
            whys = "\n".join(f"  {version}: {why}" for version, why in result.unsupported.items())
            raise RuleFailed(f"The agent supports no tested version:\n{whys}")
        return result

    def tell(self) -> None:
        """Raise `RuleFailed` if nothing could be tested and no other test reports it."""
        if not self._is_reported and not any(
            isinstance(one, VersionTest) for one in self.session.items
        ):
            self.passed()

    async def _run(self) -> RunResult:

        settings = self.settings

        def connect(noise: Callable[[str], None]) -> ProcessTransport:
            return process(*settings.command, env=settings.env, on_stdout_noise=noise)()

        subject = " ".join(settings.command)
        run = AgentRun(
            connect, agent_scenarios(), settings, subject=subject, budget_s=settings.budget
        )
        return await run.run(self.versions)


class _Test(pytest.Item):
    """A test that may have to wait for the whole run."""

    parent: Check

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """Show the finding, not the place in this file."""
        if isinstance(excinfo.value, RuleFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)


class VersionTest(_Test):
    """The agent starts, supports one of the versions, and can be tested."""

    def runtest(self) -> None:
        """Fail if nothing can be tested, or if a scenario failed."""
        result = self.parent.passed()
        if result.kit_errors:
            raise RuntimeError("\n".join(("Error in the conformance kit:", *result.kit_errors)))
        if result.exceeded_budget_s is not None:
            raise RuleFailed(f"The time budget of {result.exceeded_budget_s:g} s was exceeded")
        wrong = [
            *map(_what, result.failed_scenarios),
            *(login.message for login in result.locked_out),
            *result.model_problems,
        ]
        wrong += (f"The agent disconnected in {_what(one)}" for one in result.disconnects)
        if wrong:
            raise RuleFailed("\n".join(wrong))

    def reportinfo(self) -> tuple[Path, None, str]:
        """Name the test."""
        return self.path, None, f"{_NAME} speaks"


class RuleTest(_Test):
    """One rule in one version."""

    version: int
    rule: Requirement

    def runtest(self) -> None:
        """Fail if the rule was broken; skip with a reason if it was not exercised."""
        self.parent.tell()
        try:
            result = self.parent.result
        except TransportError:
            pytest.skip("the agent cannot be started")
        report = next((one for one in result.reports if one.version == self.version), None)
        if report is None:
            why = result.unsupported.get(self.version, "")
            pytest.skip(f"version {self.version} is not tested: {why}")
        match report.outcome(self.rule):
            case "passed":
                return
            case "not exercised":
                pytest.skip(f"not exercised{_why(result, self.version, self.rule)}")
            case outcome:
                text = describe_failures(report, [self.rule.id])
        if outcome in ("warned", "advised") and not self.parent.strict:
            self.add_report_section("call", "accord", text)
            return
        if (self.rule.id, self.version) in self.parent.baseline:
            pytest.xfail("in the baseline")
        raise RuleFailed(text)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Name the test."""
        return self.path, None, f"v{self.version} {self.rule.id} {self.rule.rule}"


def collect(session: pytest.Session, command: str) -> list[pytest.Item]:
    """Return the tests of all rules; raise `pytest.UsageError`."""
    option: Any = session.config.option
    check: Check = _new(Check, session, name=_NAME, nodeid=_NAME)
    check.settings = _settings(option.accord_check_config)
    if command:
        check.settings.command = argv_of(command)
    if not check.settings.command:
        raise pytest.UsageError("--accord-check needs the command that starts the agent")
    chosen: str = option.accord_check_version
    check.versions = (1, 2) if chosen == "both" else (int(chosen),)
    check.strict = option.accord_check_strict
    check.baseline = _known(option.accord_check_baseline)
    session.config.stash[_MADE] = check
    return list(check.collect())


def _new(kind: Any, parent: Any, **more: Any) -> Any:
    """Create a node as pytest requires it, for which its types are not precise."""
    made = kind.from_parent(parent, **more)
    if isinstance(made, _Test):
        made.add_marker("accord_check")
        if made.config.pluginmanager.hasplugin("timeout"):
            # The settings limit the run, whose time must not count for the first test.
            made.add_marker(pytest.mark.timeout(0))
    return made


def _rule_test(check: Check, version: int, rule: Requirement) -> RuleTest:
    nodeid = f"{_NAME}::v{version}::{rule.area}::{rule.id}"
    made: RuleTest = _new(RuleTest, check, name=f"v{version}-{rule.id}", nodeid=nodeid)
    made.version = version
    made.rule = rule
    made.user_properties += [("rule", rule.rule), ("level", rule.level)]
    return made


def summary(config: pytest.Config) -> list[str]:
    """Return lines about the result of the run, none if it did not start."""
    check = config.stash.get(_MADE, None)
    if check is None or check.is_created is None:
        return []
    result = check.is_created
    lines = [verdict(result).text, *(_sum(report) for report in result.reports)]
    lines += [
        f"version {version} was not tested: {why}" for version, why in result.unsupported.items()
    ]
    if mended := check.baseline & result.passed_rules():
        rules = ", ".join(f"{rule} (v{version})" for rule, version in sorted(mended))
        lines.append(f"in the baseline, but no longer failing: {rules}")
    return lines


_MADE = pytest.StashKey[Check]()


def _what(played: ScenarioResult) -> str:
    return (
        f"{played.scenario} in version {played.version}: {played.reason}. {played.advice}".rstrip()
    )


def _sum(report: Report) -> str:
    counts = {"passed": 0, "failed": 0, "warned": 0, "advised": 0, "not exercised": 0}
    warned: list[str] = []
    for rule in report.applicable_rules():
        outcome = report.outcome(rule)
        counts[outcome] += 1
        if outcome in ("warned", "advised"):
            warned.append(rule.id)
    numbers = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    named = f" ({', '.join(warned)})" if warned else ""
    return f"version {report.version}: {numbers}{named}"


def _why(result: RunResult, version: int, rule: Requirement) -> str:
    """Return why the scenarios about a rule have no outcome."""

    names = {one.name for one in agent_scenarios() if rule.id in one.rules}
    reasons = {
        played.reason: None
        for played in result.scenarios(version)
        if played.scenario in names and played.reason
    }
    return f": {'; '.join(reasons)}" if reasons else ""


def _settings(file: Path | None) -> Settings:

    if file is None and not SETTINGS_FILE.exists():
        return Settings()
    try:
        settings = read_settings(file or SETTINGS_FILE)
        validate_skips(settings.skip, agent_scenarios())
        return settings
    except (InvalidSettings, UnknownName) as wrong:
        raise pytest.UsageError(str(wrong)) from None


def _known(file: Path | None) -> Known:
    if file is None:
        return set()
    try:
        return read_baseline(file)
    except OSError as error:
        why = f"Cannot read the baseline {file}: {error.strerror}"
        raise pytest.UsageError(why) from None
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
