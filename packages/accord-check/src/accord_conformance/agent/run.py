"""A run against an agent: all scenarios in each version, several at a time."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from accord.errors import TransportError
from accord.rules.negotiation import is_false_v2
from accord.rules.quirks import tolerates
from accord.text.excerpt import excerpt
from accord.text.lenient_json import is_array, is_object
from accord.transports.base import Transport
from accord_conformance.agent.context import (
    AgentContext,
    Connect,
    RemoteAgent,
    is_refusal,
    missing_in_answer,
)
from accord_conformance.agent.scenario_client import ScenarioClient
from accord_conformance.agent.settings import Settings, TurnTimeout
from accord_conformance.harness import (
    Advisory,
    LoginRequired,
    NoResponse,
    NoSessionResponse,
    NotExercised,
    PromptFailed,
    RawConnection,
    Scenario,
    SecretMask,
    describe_exit,
    last_stderr_lines,
)
from accord_conformance.judges.base import make_finding
from accord_conformance.reports.report import (
    Finding,
    LoginProblem,
    Report,
    RunResult,
    ScenarioOutcome,
    ScenarioResult,
    applies_to,
)
from accord_conformance.rules.manifest import requirements
from accord_conformance.traffic.connection_state import update_of
from accord_conformance.traffic.message import Medium, Request, format_value

_CHARACTERS = 200  # of texts of the agent

_FAILED_PROMPT = "Other prompts worked. Check the prompt `text` of the settings, and the agent."
_OVER_BUDGET = "the time budget was exceeded"
_NOT_HERE: dict[Medium, str] = {
    "stdio": "only for agents at a URL",
    "websocket": "not for agents that are served by WebSocket",
    "http": "not for agents that are served by HTTP",
}
_UNCERTAIN = ("unfinished", "error in the kit")  # after these, the connection is not used again
_TRIES = 3  # unanswered requests for a session; then the run ends
MAX_CONNECTIONS = 4  # at a time; one of them is shared


class AgentRun:
    """Runs scenarios with the agent that `connect` starts.

    `on_start` is called when a version or a scenario begins, `on_result` when a scenario has ended,
    and `on_close` for each connection, with a name. `total` is the known number of scenarios. A run
    that takes longer than `budget_s` stops then. `remote` is given if the agent is at a URL.
    """

    def __init__(
        self,
        connect: Connect,
        scenarios: Sequence[Scenario[AgentContext]],
        settings: Settings,
        *,
        subject: str = "",
        budget_s: float | None = None,
        on_start: Callable[[int, str], None] = lambda _, __: None,
        on_result: Callable[[ScenarioResult], None] = lambda _: None,
        on_close: Callable[[str, RawConnection], None] | None = None,
        remote: RemoteAgent | None = None,
    ) -> None:
        self.connect = connect
        self.scenarios = scenarios
        self.settings = settings
        self.budget_s = budget_s
        self.on_start = on_start
        self.on_result = on_result
        self.on_close = on_close
        self.remote = remote
        self.medium: Medium = "stdio" if remote is None else remote.medium
        self.total = 0
        self.result = RunResult(subject)
        self.agent_is_silent = False  # in one version: the other would take as long
        self.false_v2: Finding | None = None
        self._ends = float("inf")  # in the loop's time

    @property
    def is_over_budget(self) -> bool:
        """Whether the time budget is exceeded."""
        return asyncio.get_running_loop().time() >= self._ends

    def budget_timeout(self) -> asyncio.Timeout:
        """Return a timeout that ends the block when the time budget is exceeded."""
        return asyncio.timeout_at(None if self.budget_s is None else self._ends)

    async def run(self, versions: Sequence[int]) -> RunResult:
        """Run all scenarios; raise `TransportError` if the agent cannot be started."""
        began = time.monotonic()
        if self.budget_s is not None:
            self._ends = asyncio.get_running_loop().time() + self.budget_s
        with tempfile.TemporaryDirectory(prefix="accord-check-") as folder:
            root = os.path.realpath(folder)  # noqa: ASYNC240
            for version in versions:
                await self._run_version(version, root)
            if self.false_v2 is not None:
                if 1 not in versions:
                    await self._run_version(1, root)
                self._report_false_v2(self.false_v2)
        if self.is_over_budget:
            self.result.exceeded_budget_s = self.budget_s
        self.result.seconds = time.monotonic() - began
        return self.result

    async def _run_version(self, version: int, root: str) -> None:
        if self.agent_is_silent or self.is_over_budget:
            why = (
                "the agent sent no response in the previous version"
                if self.agent_is_silent
                else _OVER_BUDGET
            )
            self.result.unsupported[version] = why
            return
        await VersionRun(self, version, _new_folder(root, f"v{version}")).run()

    def _report_false_v2(self, finding: Finding) -> None:
        """Add the finding to the report of version 1, unless a scenario found it there."""
        for report in self.result.supported:
            known = report.rules.get(finding.rule)
            if report.version == 1 and (known is None or not known.failed):
                report.add(finding)


class VersionRun:
    """The run of the scenarios in one version."""

    def __init__(self, run: AgentRun, version: int, folder: Path) -> None:
        self._run = run
        self._version = version
        self._folder = folder
        self._report = Report(
            subject=run.result.subject, side="agent", version=version, medium=run.medium
        )
        self._login_problem = LoginProblem(
            version=version, scenarios=[], turns=0, offered=[], tried=run.settings.login
        )
        self._connections = 0
        self._turn_timeout = TurnTimeout(run.settings)
        self._unanswered = 0  # requests for a session
        self._ended_turns = 0  # neither failed nor cancelled
        self._failed_prompt: ScenarioResult | None = None  # a plain one
        self._answers_unknown_methods = True  # with an error, as they have to be

    async def run(self) -> None:
        self._run.on_start(self._version, "handshake")
        if not await self._negotiate():
            broken = any(found.failed for found in self._report.rules.values())
            if broken or self._report.kit_errors:
                self._run.result.reports.append(self._report)
            return
        self._run.result.reports.append(self._report)
        scenarios = [one for one in self._run.scenarios if self._version in one.versions]
        shared = [one for one in scenarios if not one.isolated]
        waiting = [one for one in scenarios if one.isolated]
        self._run.total += len(scenarios)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._run_shared(shared))
            for _ in range(MAX_CONNECTIONS - 1):
                group.create_task(self._run_isolated(waiting))
        if (failed := self._failed_prompt) is not None:
            if self._ended_turns == 0:
                self._run.result.prompt_failures[self._version] = failed.reason
            else:
                failed.reason = f"a plain prompt failed: {failed.reason}"
                failed.outcome, failed.advice = "wrong", _FAILED_PROMPT
        if self._login_problem.scenarios:
            self._login_problem.scenarios.sort()
            self._run.result.login_problems.append(self._login_problem)

    async def _negotiate(self) -> bool:
        """Return whether the agent supports this version; record the reason if not."""
        client = await self._start("handshake")
        connection = client.connection
        exit_error: Exception | None = None
        silence: NoResponse | None = None
        call: Request | None = None
        try:
            async with self._run.budget_timeout():
                call = await client.initialize()
        except TimeoutError:
            silence = NoResponse(f"no response to initialize: {_OVER_BUDGET}")
        except NoResponse as error:
            silence = error
            has_sent_frames = any(
                frame.sender == "agent" for frame in connection.observer.state.frames
            )
            self._run.agent_is_silent = not has_sent_frames and not connection.is_closed
            if connection.is_closed:
                exit_error = await connection.exit_error()  # before the kit stops the process
        except BaseException:
            await client.aclose()
            raise
        answered = client.result.get("protocolVersion")
        agreed = call is not None and call.ok  # and logged in, if the settings name a login
        false = self._version == 2 and agreed and _is_false_v2(client.result)
        speaks = agreed and answered == self._version and not false
        # A result with another version is judged in the run of that version.
        negotiated = agreed and not speaks and not false and answered in (1, 2)
        await self._close("handshake", client, with_findings=not negotiated and not false)
        if speaks:
            self._login_problem.offered = _ids(client.result.get("authMethods"))
            return True
        mask = SecretMask(self._run.settings.env)
        if false:
            self._run.false_v2 = make_finding(
                "R-INIT-06",
                False,
                "agent",
                call,
                expected="version 1, because the result has the form of version 1",
                got="version 2",
                where="handshake",
            )
            why = (
                "the agent answers initialize with version 2, but in the form of version 1 "
                "(R-INIT-06): it is judged in version 1"
            )
        elif silence is not None:
            refusal = connection.close_error if self._run.medium == "http" else None
            tested = self._run.result.reports or self._run.result.unsupported
            if is_refusal(refusal) and not tested:
                raise refusal
            why = f"initialize failed: {refusal or silence}"
            self._judge_answer(connection)
        elif call is not None and not call.ok:
            why = f"error {_excerpt(mask(_error(call)))}"
        elif negotiated:
            why = f"the agent answered with version {answered}"
        else:
            result = mask(format_value(call.result if call else None))
            why = f"no version was agreed: the agent answered {result}"
        if not negotiated and not false:
            why += _exit_details(connection, exit_error, await connection.exit_error(), mask)
        self._run.result.unsupported[self._version] = why
        return False

    def _judge_answer(self, connection: RawConnection) -> None:
        """Judge a response to `initialize` that lacks something: the transport ends then."""
        missing = missing_in_answer(connection.close_error)
        if self._run.medium == "http" and missing is not None:
            finding = make_finding(
                "R-HTTP-05",
                False,
                "agent",
                *connection.observer.state.frames,
                expected=missing,
                got="an HTTP response without it",
                where="handshake",
            )
            self._report.add(finding)

    async def _run_shared(self, scenarios: Sequence[Scenario[AgentContext]]) -> None:
        """Run scenarios one after the other on one connection; reconnect if it is lost."""
        client: ScenarioClient | None = None
        for scenario in scenarios:
            if self._is_given_up(scenario):
                continue
            try:
                if client is None:
                    client = await self._start("shared")
                    async with self._run.budget_timeout():
                        await client.initialize()
            except (NoResponse, TransportError, TimeoutError) as error:
                result = ScenarioResult(
                    scenario=scenario.name,
                    about=scenario.about,
                    version=self._version,
                    outcome="unfinished",
                    reason=_OVER_BUDGET if isinstance(error, TimeoutError) else str(error),
                )
                self._add_result(result)
            else:
                ending = await self._run_scenario(scenario, client)
                if ending not in _UNCERTAIN and not client.connection.is_closed:
                    continue
            if client is not None:
                await self._close("shared", client)
                client = None
        if client is not None:
            await self._close("shared", client)

    async def _run_isolated(self, waiting: list[Scenario[AgentContext]]) -> None:
        """Run the remaining scenarios, each on its own connections."""
        while waiting:
            scenario = waiting.pop(0)
            if not self._is_given_up(scenario):
                await self._run_scenario(scenario, None)

    def _is_given_up(self, scenario: Scenario[AgentContext]) -> bool:
        """Return whether to leave out a scenario because the agent opens no sessions."""
        if self._unanswered < _TRIES and not self._run.is_over_budget:
            return False
        result = ScenarioResult(
            scenario=scenario.name,
            about=scenario.about,
            version=self._version,
            outcome="unfinished",
        )
        why = _OVER_BUDGET if self._run.is_over_budget else "the agent does not respond"
        result.reason = f"not run: {why}"
        self._add_result(result)
        return True

    async def _run_scenario(
        self, scenario: Scenario[AgentContext], shared: ScenarioClient | None
    ) -> ScenarioOutcome:
        result = ScenarioResult(
            scenario=scenario.name, about=scenario.about, version=self._version, outcome="finished"
        )
        why = self._run.settings.skipped(scenario.name)
        if self._run.medium not in scenario.media:
            why = _NOT_HERE[self._run.medium]
        if why is not None:
            result.outcome, result.reason = "skipped", why
            self._add_result(result)
            return "skipped"
        self._run.on_start(self._version, scenario.name)
        began = time.monotonic()
        folder = _new_folder(str(self._folder), scenario.name.replace("/", "-"))
        context = AgentContext(
            scenario,
            self._version,
            self._run.settings,
            folder,
            report=self._report,
            start=self._start,
            close=self._close,
            shared=shared,
            remote=self._run.remote,
        )
        if shared is not None:
            shared.start_scenario(folder, scenario.name)
        limit = self._run.budget_timeout()
        try:
            async with limit:
                await scenario.run(context)
                if shared is not None:
                    await self._sync(shared)
            if missed := context.missed_purposes():
                result.outcome, result.reason = "not exercised", missed
        except LoginRequired as missed:
            result.outcome, result.reason = "not exercised", str(missed)
            self._login_problem.scenarios.append(scenario.name)
        except NotExercised as missed:
            result.outcome, result.reason = "not exercised", str(missed)
            if isinstance(missed, PromptFailed):
                self._failed_prompt = result
        except Advisory as objection:
            result.outcome = "wrong" if objection.is_failure else "advised"
            result.reason, result.advice = str(objection), objection.advice
            result.frames = objection.frames
        except NoSessionResponse as silence:
            self._unanswered += 1
            result.outcome, result.reason = "unfinished", str(silence)
            if self._unanswered == _TRIES:
                result.outcome = "wrong"
                result.reason = f"{_TRIES} requests for a session got no response"
                result.advice = (
                    "The other scenarios were not run, because they would time out, too."
                )
        except (NoResponse, TransportError) as error:
            result.outcome, result.reason = "unfinished", str(error)
        except Exception as error:  # noqa: BLE001  # an error in the kit does not end the run
            if isinstance(error, TimeoutError) and limit.expired():
                result.outcome, result.reason = "unfinished", _OVER_BUDGET
            else:
                result.outcome, result.reason = "error in the kit", repr(error)
                result.traceback = traceback.format_exc()
        finally:
            await context.aclose()
        if shared is not None and shared.connection.is_closed:
            if result.outcome in ("finished", "not exercised"):
                result.outcome, result.reason = "unfinished", "the peer disconnected"
            if result.outcome == "unfinished":
                await self._add_exit_details(result, shared)
        result.seconds = time.monotonic() - began
        self._add_result(result)
        return result.outcome

    async def _sync(self, client: ScenarioClient) -> None:
        """Return when the agent has answered a request: then it has read all of the scenario.

        If it exits, this scenario is the cause, not the next one.
        """
        if not self._answers_unknown_methods or client.connection.is_closed:
            return
        with suppress(NoResponse):
            await client.connection.call("_accord/settle", {})
            return
        self._answers_unknown_methods = False

    async def _add_exit_details(self, played: ScenarioResult, client: ScenarioClient) -> None:
        """Record the last frames before the agent exited in a scenario, and how it exited."""
        line = client.connection
        played.disconnected = True
        played.frames = line.last_sent()
        ended = await line.exit_error()
        how = _exit_details(line, ended, ended, SecretMask(self._run.settings.env))
        played.reason += how.replace(":\n    ", ": ").replace("\n    ", " | ")

    def _add_result(self, played: ScenarioResult) -> None:
        self._run.result.scenario_results.append(played)
        self._run.on_result(played)

    async def _start(self, name: str) -> ScenarioClient:
        """Start the agent."""
        lines: list[RawConnection] = []
        connecting = self._run.connect(lambda noise: lines[0].noise_received(noise))
        transport = connecting if isinstance(connecting, Transport) else await connecting
        settings = self._run.settings
        line = RawConnection(
            transport, "client", answer_s=settings.answer, start_s=settings.timeout
        )
        lines.append(line)
        line.observer.where = name
        await line.open()
        return ScenarioClient(line, self._version, settings, self._folder, self._turn_timeout)

    async def _close(
        self, name: str, client: ScenarioClient, *, with_findings: bool = True
    ) -> None:
        """Disconnect, and add the observer's findings."""
        await client.aclose()
        report = client.connection.observer.finish()
        rules = {
            rule: found
            for rule, found in report.rules.items()
            if with_findings
            and self._version in requirements()[rule].versions
            and applies_to(requirements()[rule], self._run.medium)
        }
        report.rules = rules
        self._report.merge(report)
        self._run.result.run_errors += client.connection.kit_errors
        self._record_login(client)
        self._connections += 1
        if self._run.on_close is not None:
            self._run.on_close(f"v{self._version}-{self._connections}-{name}", client.connection)

    def _record_login(self, client: ScenarioClient) -> None:
        """Record whether the login of the settings failed, and the number of turns."""
        call = client.login_request
        if call is not None and not call.ok:
            mask = SecretMask(self._run.settings.env)
            self._login_problem.error = _excerpt(mask(_error(call)))
        calls = client.connection.observer.state.requests
        prompts = [one for one in calls if one.method == "session/prompt" and one.ok]
        self._login_problem.turns += len(prompts)
        if self._version == 1:
            ends = [one.result for one in prompts]
            self._ended_turns += sum(
                not (is_object(end) and end.get("stopReason") == "cancelled") for end in ends
            )
            return
        ends = [update_of(note) for note in client.connection.notifications]
        self._ended_turns += sum(
            end.get("state") == "idle" and end.get("stopReason") not in (None, "cancelled", "error")
            for end in ends
        )


@tolerates("false-v2")
def _is_false_v2(result: dict[str, Any]) -> bool:
    """Return whether an agent answers with version 2 but in the form of version 1.

    A result that has only the number is of version 1: version 2 requires `info`.
    """
    is_bare = not is_object(result.get("info")) and "capabilities" not in result
    return result.get("protocolVersion") == 2 and (is_bare or is_false_v2(result))


def _ids(methods: Any) -> list[str]:
    """Return the ids of auth methods."""
    found = [one for one in methods if is_object(one)] if is_array(methods) else []
    ids = (one.get("methodId", one.get("id")) for one in found)
    return [excerpt(ident) for ident in ids if isinstance(ident, str)]


def _exit_details(
    line: RawConnection, lost: Exception | None, ended: Exception | None, mask: SecretMask
) -> str:
    """Describe how an agent exited, and its output other than frames."""
    parts = [describe_exit(lost)]
    if line.noise:
        parts.append(f"it wrote {_excerpt(mask(line.noise[0]))!r}")
    if words := last_stderr_lines(ended, mask):
        parts.append("the last lines of its stderr:\n" + "\n".join(f"    {one}" for one in words))
    return "".join(f"; {part}" for part in parts if part)


def _error(call: Request) -> str:
    return format_value(call.response.error) if call.response else "none"


def _excerpt(text: str) -> str:
    return excerpt(text, _CHARACTERS)


def _new_folder(parent: str, name: str) -> Path:
    folder = Path(parent, name)
    folder.mkdir()
    return folder
