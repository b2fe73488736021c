"""The pytest plugin: fixtures for agents and clients under test, and a test for each rule.

`pytest_entry`, which pytest loads at its start, imports this package when it is first used.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, Unpack

import pytest

from accord.client.ask import AskResult, ask
from accord.client.connect import ConnectedAgent, ConnectOptions, connect
from accord.client.permissions import Policy
from accord.errors import TransportError
from accord.local.run import run_program
from accord.text.excerpt import one_line
from accord.transports.command_line import argv_of
from accord.transports.process import ProcessTransport, process
from accord.types.content import ContentBlock
from accord_conformance.agent.run import AgentRun
from accord_conformance.agent.scenarios import agent_scenarios
from accord_conformance.agent.settings import (
    SETTINGS_FILE,
    InvalidSettings,
    Settings,
    read_settings,
)
from accord_conformance.judges.observer import Observer
from accord_conformance.reports.report import (
    FRAME_CHARACTERS,
    Finding,
    Known,
    Report,
    RunResult,
    ScenarioResult,
    frame_line,
    read_baseline,
    verdict,
)
from accord_conformance.rules.manifest import Requirement, UnknownName, requirements, validate_skips
from accord_conformance.traffic.message import Side
from accord_trace.replay import ReplayedAgent

# The message of a test that failed because of rules.

MAX_SHOWN = 3  # findings of one rule; the others are counted


class RuleFailed(AssertionError):
    """Rules were broken; the text shows the messages."""


def describe_failures(report: Report, rules: Iterable[str]) -> str:
    """Describe the failures of these rules: expected, got, and the frames."""
    return "\n".join(line for rule in rules for line in _rule(report, rule))


def _rule(report: Report, ident: str) -> Iterator[str]:
    result = report.rules[ident]
    first, *_ = result.failures
    rule = first.requirement
    yield f"{ident} {rule.level}: {rule.rule}"
    for finding in result.failures[:MAX_SHOWN]:
        yield from _finding(finding)
    if result.failed > MAX_SHOWN:
        yield f"  … and {result.failed - MAX_SHOWN} more findings"


def _finding(finding: Finding) -> Iterator[str]:
    where = f", in {finding.where}" if finding.where else ""
    yield f"  failed by the {finding.by}{where}"
    yield f"    expected  {finding.expected}"
    yield f"    got       {finding.got}"
    for frame in finding.frames:
        yield f"    {frame_line(frame)}"


# The fixture for authors of agents: connections whose traffic is judged.

T = TypeVar("T")

TURN_S = 60.0


class AgentOptions(ConnectOptions, total=False):
    """The keyword arguments of `accord.connect`, which documents them."""

    permissions: Policy | Sequence[Policy] | None
    cwd: str | os.PathLike[str]


class AgentUnderTest:
    """The fixture `accord_agent`: each connection starts a process of the agent.

    `folder` is empty at first; sessions of `ask` work in it. `reports` has the report of each
    closed connection.
    """

    def __init__(self, command: Sequence[str], *, folder: Path) -> None:
        self.command: tuple[str, ...] = tuple(command)
        self.folder = folder
        self.reports: list[Report] = []

    @asynccontextmanager
    async def connect(
        self, **options: Unpack[AgentOptions]
    ) -> AsyncGenerator[ConnectedAgent, None]:
        """Start the agent, and stop it at the end; `options` and errors are those of `connect`."""
        watched = _ObservedTransport(options)
        try:
            async with connect(self.command, **watched.options) as agent:
                yield agent
        finally:
            self.reports.append(watched.finish())

    def ask(
        self,
        prompt: ContentBlock | Sequence[ContentBlock],
        *,
        timeout_s: float = TURN_S,
        **options: Unpack[AgentOptions],
    ) -> AskResult:
        """Start the agent, run one turn in `folder`, and stop it; for tests without a loop."""
        watched = _ObservedTransport(options)
        given: AgentOptions = {"cwd": self.folder, **watched.options}
        try:
            return ask(self.command, prompt, timeout_s=timeout_s, **given)
        finally:
            self.reports.append(watched.finish())

    def run(
        self,
        function: Callable[[ConnectedAgent], Awaitable[T]],
        *,
        timeout_s: float = TURN_S,
        **options: Unpack[AgentOptions],
    ) -> T:
        """Run a coroutine function with the connected agent; for tests without an event loop.

        Raise `TimeoutError` if that takes too long.
        """

        async def main() -> T:
            async with asyncio.timeout(timeout_s), self.connect(**options) as agent:
                return await function(agent)

        return asyncio.run(main())

    def check(self, *, strict: bool = False) -> None:
        """Raise `RuleFailed` if the agent broke a MUST rule so far, with `strict` any rule."""
        if faults := [fault for report in self.reports for fault in report.kit_errors]:
            raise RuntimeError("\n".join(("Error in the conformance kit:", *faults)))
        texts = [
            f"protocol version {report.version or 'not agreed'}\n"
            f"{describe_failures(report, broken)}"
            for report in self.reports
            if (broken := report.failed_rules(strict=strict))
        ]
        if texts:
            raise RuleFailed("The agent failed rules of the protocol:\n" + "\n\n".join(texts))


class _ObservedTransport:
    """Options for a connection, with an observer that judges the agent."""

    def __init__(self, options: AgentOptions) -> None:
        self._observer = Observer(only="agent")
        self._began = time.monotonic()
        self._on_stdout_noise = options.get("on_stdout_noise")
        observers = (*options.get("observers", ()), self._frame)
        self.options: AgentOptions = {
            **options,
            "observers": observers,
            "on_stdout_noise": self._noise,
        }

    def finish(self) -> Report:
        """Return the report."""
        self._observer.end("client")
        return self._observer.finish()

    def _frame(self, direction: str, frame: bytes | bytearray) -> None:
        sender: Side = "client" if direction == "sent" else "agent"
        self._observer.receive(sender, bytes(frame), time.monotonic() - self._began)

    def _noise(self, text: str) -> None:
        self._observer.receive("agent", text.encode(), time.monotonic() - self._began)
        if self._on_stdout_noise is not None:
            self._on_stdout_noise(text)


def agent_command(request: pytest.FixtureRequest) -> tuple[list[str], bool]:
    """Return the command of the agent of a test, and whether it is judged; fail without one."""
    node: pytest.Item = request.node
    marker = node.get_closest_marker("accord_agent")
    judged = bool(marker.kwargs.get("judge", True)) if marker else True
    if marker is not None and marker.args:
        return [os.fspath(word) for word in argv_of(*_words(marker.args))], judged
    command = request.config.getoption("accord_agent") or request.config.getini("accord_agent")
    if not command:
        pytest.fail(
            "Missing the agent's command: --accord-agent COMMAND, `accord_agent` in the config of "
            "pytest, or @pytest.mark.accord_agent(*words)",
            pytrace=False,
        )
    return list(argv_of(command)), judged


def _words(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """One text is a command line; several texts are its arguments."""
    return given if len(given) == 1 else (list(given),)


# The fixture for authors of clients: an agent that tests the client that starts it.

_BAD = ("failed",)
_BAD_STRICT = ("failed", "warned", "advised")


class ClientUnderTest:
    """The fixture `accord_client`.

    The client starts `command` like any agent, opens a session, and sends `prompt`.
    """

    prompt = "check: all"

    def __init__(self, report_file: Path) -> None:
        self.report_file = report_file

    @property
    def command(self) -> list[str]:
        """The command that the client has to start."""
        report = ["--report", str(self.report_file)]
        return [sys.executable, "-m", "accord", "check", "client", *report]

    def report(self) -> dict[str, Any]:
        """Return the JSON report so far; raise `RuleFailed` if it does not exist.

        It is complete when the client has disconnected.
        """
        try:
            return json.loads(self.report_file.read_bytes())
        except FileNotFoundError:
            raise RuleFailed(
                "No report: the client did not start the agent that it has to start "
                "(`accord_client.command`), or the agent could not start"
            ) from None

    def outcomes(self) -> dict[str, str]:
        """Return the outcome of each rule: passed, failed, warned, advised, or not exercised."""
        return {rule["id"]: rule["outcome"] for rule in self._rules()}

    def check(self, *, strict: bool = False) -> None:
        """Raise `RuleFailed` if the client broke a MUST rule, with `strict` any rule.

        It is also raised if the client ran no scenario: then hardly any rule was exercised.
        """
        bad = _BAD_STRICT if strict else _BAD
        lines = [line for rule in self._rules() if rule["outcome"] in bad for line in _broken(rule)]
        if lines:
            raise RuleFailed("\n".join(("The client failed rules of the protocol:", *lines)))
        if errors := self.report()["errorsInTheKit"]:
            raise RuntimeError("\n".join(("Error in the conformance kit:", *errors)))
        played = self.report()["scenarios"]
        wrong = [one for one in played if one["ending"] == "wrong" or one["left"]]
        if wrong:
            lines = [f"    {one['scenario']}: {one['reason']}. {one['advice']}" for one in wrong]
            raise RuleFailed(
                "\n".join(("The client failed scenarios for which no rule exists:", *lines))
            )
        if not self.report()["scenarios"]:
            raise RuleFailed(
                f"No scenario ran: the client sent no prompt such as {self.prompt!r} "
                "(`accord_client.prompt`)"
            )

    def _rules(self) -> list[dict[str, Any]]:
        reports: list[dict[str, Any]] = self.report()["reports"]
        return [rule for report in reports for rule in report["rules"]]


def _broken(rule: dict[str, Any]) -> Iterator[str]:
    found = requirements()[rule["id"]]
    yield f"{found.id} {found.level}: {found.rule}"
    for finding in rule["findings"][:MAX_SHOWN]:
        yield f"    expected  {finding['expected']}"
        yield f"    got       {finding['got']}"
        for frame in finding["frames"]:
            text = one_line(frame["frame"], FRAME_CHARACTERS)
            sign = ">" if frame["from"] == "client" else "<"
            yield f"    #{frame['number']} {frame['time']:.3f} s {sign} {text}"


# The fixture for authors of clients: agents that replay recordings.


class ReplayedAgents:
    """The fixture `replayed_agent`: call it with the path of a recording.

    A relative path is looked up in the folder of the test's module, then in the current directory.
    """

    def __init__(self, test_folder: Path, folder: Path) -> None:
        self.agents: list[ReplayedAgent] = []
        self._test_folder = test_folder
        self._folder = folder

    def __call__(
        self, recording: str | os.PathLike[str], *, speed: float = 0.0, strict: bool = False
    ) -> ReplayedAgent:
        """Return an agent that replays the recording; see `ReplayedAgent` for the options."""
        path = self._test_folder / recording
        reports = self._folder / f"replayed-agent-{len(self.agents) + 1}"
        reports.mkdir()
        agent = ReplayedAgent(
            path if path.exists() else recording, speed=speed, strict=strict, folder=reports
        )
        self.agents.append(agent)
        return agent

    def finish(self, item: pytest.Item) -> None:
        """Add a section with the departures to the report of the test.

        With `strict`, raise `AssertionError` if a client has departed from a recording.
        """
        for agent in self.agents:
            text = "\n".join(agent.report().lines())
            item.add_report_section("teardown", f"replay of {agent.recording.name}", text)
        for agent in self.agents:
            if agent.strict:
                agent.assert_matched()


# `pytest --accord-check COMMAND`: a test for each rule of the protocol, from one run.

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
