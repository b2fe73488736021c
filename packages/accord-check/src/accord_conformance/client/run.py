"""A run against a client: runs the scenarios that its prompts name, and updates the report."""

from __future__ import annotations

import asyncio
import re
import time
import traceback
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from accord.connection.tasks import discard_with
from accord.text.excerpt import one_line
from accord.text.lenient_json import is_object
from accord.transports.base import Transport
from accord_conformance.client.context import ClientContext, ClientGone
from accord_conformance.client.fixtures import ABSENT_METHOD, COMMAND, ActivePrompt
from accord_conformance.client.scenario_agent import PAUSE_S, ClientRules, ScenarioAgent
from accord_conformance.harness import NoResponse, NotExercised, RawConnection, Scenario
from accord_conformance.reports.report import (
    Report,
    RunResult,
    ScenarioOutcome,
    ScenarioResult,
    applies_to,
    verdict,
)
from accord_conformance.rules.manifest import requirements
from accord_conformance.traffic.message import Frame, Medium, Request

if TYPE_CHECKING:
    from accord_conformance.client.network import NetworkEnd

# Parses a prompt: scenarios to run, a list of them, or help.

_COMMAND = re.compile(rf"(?:\bcheck:|/{COMMAND}\b)[ \t]*([\w./-]*)")


class PromptCommand(Struct, frozen=True):
    """Scenarios to run, or a message."""

    scenarios: tuple[Scenario[Any], ...] = ()
    message: str = ""


def parse_prompt_command(text: str, scenarios: Sequence[Scenario[Any]]) -> PromptCommand:
    """Return the command in a prompt; a name may be that of a scenario or of an area."""
    found = _COMMAND.search(text)
    name = found[1] if found else ""
    if name == "all":
        return PromptCommand(tuple(scenarios))
    if name == "list":
        return PromptCommand(message="\n".join(f"- `{one.name}`: {one.about}" for one in scenarios))
    chosen = tuple(one for one in scenarios if name in (one.name, one.area))
    if chosen:
        return PromptCommand(chosen)
    unknown = f"Unknown scenario {name!r}. " if name else ""
    areas = ", ".join(dict.fromkeys(f"`{one.area}`" for one in scenarios))
    return PromptCommand(
        message=f"{unknown}This agent tests the client. Send `check: all`, `check: list`, or "
        f"`check:` and a scenario or one of {areas}."
    )


# The run.

USER_TIMEOUT_S = 30.0  # for the user to answer or to act
_GRACE_S = 0.3
_NAME_CHARACTERS = 200
_KEEP_S = 1.0  # between two reports
_REST = 20  # times the duration of writing a report
_MAX_SHOWN = 5  # frames before a client disconnected
_MAX_TIMEOUTS = 3  # unanswered requests; then no other scenario runs
_END_S = 24 * 3600.0  # a client may stay open all day


_AGAIN = "With --restart COMMAND, the client is started again for these scenarios."


class _Terminated(Exception):
    """A signal arrived while the client was connected."""


class ClientRun:
    """Runs as an agent on a transport until the client disconnects.

    `on_result` gets the result at most once a second, after each scenario, and at the end, even if
    the run is interrupted. An error in the kit does not end the run: it is in the result.
    """

    def __init__(
        self,
        transport: Transport,
        scenarios: Sequence[Scenario[ClientContext]],
        *,
        versions: tuple[int, ...] = (1, 2),
        answer: int | None = None,
        login: bool = False,
        pause_s: float = PAUSE_S,
        answer_s: float = 10.0,
        user_timeout_s: float = USER_TIMEOUT_S,
        on_result: Callable[[RunResult], None] = lambda _: None,
        network: NetworkEnd | None = None,
        earlier: RunResult | None = None,
    ) -> None:
        self.connection = RawConnection(transport, "agent", answer_s=answer_s)
        self.scenarios = scenarios
        self.network = network
        self.medium: Medium = "stdio" if network is None else network.rules.report.medium
        self.user_timeout_s = user_timeout_s
        self._report = Report()
        self._scenario_results: list[ScenarioResult] = []
        self._began = time.monotonic()
        self._on_result = on_result
        self._rules = ClientRules(self._report, lambda: self.connection.observer.state.version)
        self._tasks: asyncio.TaskGroup | None = None
        self._agent = ScenarioAgent(
            self.connection,
            self._rules,
            self._on_prompt,
            self._start,
            versions=versions,
            answer=answer,
            login=login,
            pause_s=pause_s,
        )
        self._agent.has_order = self.medium != "http"
        self._user_absent = False
        self._timeouts = 0
        self._earlier = earlier
        # The names of the scenarios that are still to run after a restart, or did not run.
        self._unplayed = [] if earlier is None else [one.name for one in scenarios]

    async def run(self) -> RunResult:
        """Serve until the client disconnects; raise `TransportError` if that cannot start."""
        await self.connection.open()
        try:
            await self._serve()
            self._rules.finished(self.connection)
            if self.network is not None and self.medium == "http":
                self.network.rules.on_http_end()
            self.connection.observer.finish()
        finally:
            # Even if the run is interrupted.
            result = self.result()
            self._on_result(result)
        return result

    async def _serve(self) -> None:
        try:
            async with asyncio.TaskGroup() as self._tasks:
                keeping = self._tasks.create_task(self._write_regularly())
                with suppress(NoResponse):
                    await self.connection.wait_until(
                        lambda: self.connection.is_closed, "end", within_s=_END_S
                    )
                keeping.cancel()
        except* _Terminated:
            self._rules.terminated(self.connection)
        finally:
            await self.connection.aclose()

    async def _write_regularly(self) -> None:
        """Update the report regularly: a client may end this process at any time."""
        frames, rest_s = 0, _KEEP_S
        while True:
            await asyncio.sleep(rest_s)
            if (now := len(self.connection.observer.state.frames)) != frames:
                frames, began = now, time.monotonic()
                self._on_result(self.result())
                # With the frames of a day it takes a while, in which no request is answered.
                rest_s = max(_KEEP_S, _REST * (time.monotonic() - began))

    def terminate(self) -> None:
        """End the run after a signal, which the client may have sent instead of disconnecting."""
        if not self.connection.is_closed:
            self._start(self._terminate())

    async def _terminate(self) -> None:
        # The end of stdin may not have been read yet.
        try:
            await self.connection.wait_until(
                lambda: self.connection.is_closed, "end", within_s=_GRACE_S
            )
        except NoResponse:
            raise _Terminated from None

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._tasks is not None
        discard_with(self._tasks.create_task(self._guarded(work)), work)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except _Terminated:
            raise
        except NoResponse:
            return  # judged by the code that waits
        except Exception:  # noqa: BLE001  # an error in the kit does not end the run
            self.connection.record_kit_error()

    def result(self) -> RunResult:
        """Return the result so far."""
        observed = self.connection.observer.report
        report = Report(subject=self._subject(), side="client")
        report.version = self.connection.observer.state.version
        report.merge(observed)
        report.merge(self._report)
        if self.network is not None:
            report.merge(self.network.rules.report)
            report.medium = self.medium
            rules = report.rules.items()
            report.rules = {
                rule: found
                for rule, found in rules
                if applies_to(requirements()[rule], self.medium)
            }
        report.frames = len(self.connection.observer.state.frames)
        seconds = time.monotonic() - self._began
        return RunResult(
            self._subject(),
            [report],
            list(self._scenario_results),
            seconds=seconds,
            run_errors=list(self.connection.kit_errors),
        ).after(self._earlier)

    def remaining(self) -> list[str]:
        """Return the names of the scenarios that did not run because the client died."""
        return list(self._unplayed)

    def _subject(self) -> str:
        call: Request | None = self.connection.observer.state.initialized
        params = call.params if call is not None and is_object(call.params) else {}
        info = params.get("clientInfo") or params.get("info")
        if not is_object(info):
            return "client"
        name = f"{info.get('title') or info.get('name')} {info.get('version', '')}"
        return one_line(name.strip(), _NAME_CHARACTERS)

    # Prompts.

    async def _on_prompt(self, prompted: ActivePrompt) -> None:
        mine = [
            one
            for one in self.scenarios
            if self._agent.version in one.versions and self.medium in one.media
        ]
        wish = parse_prompt_command(prompted.text, mine)
        match wish:
            case PromptCommand(scenarios=()):
                self._agent.say(prompted.session, wish.message)
            case PromptCommand():
                await self._run_scenarios(prompted, wish.scenarios)

    async def _run_scenarios(
        self, prompted: ActivePrompt, scenarios: Sequence[Scenario[ClientContext]]
    ) -> None:
        waiting = list(scenarios)
        while waiting:
            scenario = waiting.pop(0)
            if prompted.session.cancels > prompted.cancels:
                words = f"Turn cancelled: `{scenario.name}` and the scenarios after it do not run."
                self._agent.say(prompted.session, words)
                break
            if not await self._run_scenario(prompted, scenario):
                self._add_unplayed(waiting)
                break
        self._agent.say(prompted.session, self._summary())

    def _add_unplayed(self, scenarios: Sequence[Scenario[ClientContext]]) -> None:
        """Record the scenarios that did not run because the client is gone."""
        why = "disconnected" if self.connection.is_closed else "does not respond"
        for one in scenarios:
            played = ScenarioResult(
                scenario=one.name,
                about=one.about,
                version=self._agent.version,
                outcome="unfinished",
                reason=f"not run: the client {why}",
                advice=_AGAIN if self.connection.is_closed else "",
            )
            self._scenario_results.append(played)
        self._unplayed = [one.name for one in scenarios] if self.connection.is_closed else []

    async def _run_scenario(
        self, prompted: ActivePrompt, scenario: Scenario[ClientContext]
    ) -> bool:
        """Run a scenario; return whether to continue with others."""
        patience_s = 0.0 if self._user_absent else self.user_timeout_s
        context = ClientContext(scenario, self._agent, prompted, patience_s, self.network)
        self._set_where(scenario.name)
        before = self._failed()
        first = len(self.connection.observer.state.frames)
        began = time.monotonic()
        ending: ScenarioOutcome = "finished"
        reason = advice = trace = ""
        goes_on, left = True, False
        try:
            await scenario.run(context)
        except NotExercised as missed:
            ending, reason = "not exercised", str(missed)
        except ClientGone as gone:
            ending, reason, goes_on = "unfinished", str(gone), False
            left = self.connection.is_closed and not context.user_absent
        except NoResponse as silence:
            left = self.connection.is_closed
            ending, reason = "unfinished", str(silence)
            if not self.connection.is_closed:
                ending, advice = (
                    "wrong",
                    "Respond to every request, at least with an error: agents wait for it.",
                )
                self._timeouts += 1
                goes_on = self._timeouts < _MAX_TIMEOUTS
        except Exception as error:  # noqa: BLE001  # an error in the kit does not end the run
            ending, reason, trace = "error in the kit", repr(error), traceback.format_exc()
        finally:
            await context.aclose()
        if context.may_leave:
            left, goes_on = False, await self._agent.stays_alive()
        elif ending in ("finished", "not exercised") and not await self._agent.stays_alive():
            goes_on, left = False, self.connection.is_closed
            ending = "unfinished" if left else "wrong"
            got = "it disconnected" if left else "it no longer responds"
            reason, advice = (
                f"{got} after this scenario",
                "The client must survive the frames below.",
            )
        sent = self._fatal(first)
        left = left and not context.cancelled
        self._set_where("")
        self._user_absent |= context.user_absent
        played = ScenarioResult(
            scenario=scenario.name,
            about=scenario.about,
            version=self._agent.version,
            outcome=ending,
            reason=reason,
            seconds=time.monotonic() - began,
            disconnected=left,
            advice=advice,
            frames=sent[-_MAX_SHOWN:] if left else (),
            traceback=trace,
        )
        self._scenario_results.append(played)
        self._unplayed = [name for name in self._unplayed if name != scenario.name]
        new = sorted(self._failed() - before)
        how = f"{ending}: {reason}" if reason else "played"
        broken = f"; failed: {', '.join(new)}" if new else ""
        if not self.connection.is_closed:
            self._agent.say(prompted.session, f"`{scenario.name}` {how}{broken}")
        self._on_result(self.result())
        return not self.connection.is_closed and goes_on

    def _set_where(self, name: str) -> None:
        """Set the scenario of the findings."""
        self._rules.where = self.connection.observer.where = name
        if self.network is not None:
            self.network.rules.where = name

    def _fatal(self, first: int) -> tuple[Frame, ...]:
        """Return the frames of a scenario that the client did not survive.

        They were sent after the last request that it answered. If there are none, it died later of
        an earlier one: then all frames of the scenario may be the cause.
        """
        return self.connection.unread(first) or self._sent(first)

    def _sent(self, first: int) -> tuple[Frame, ...]:
        """Return the sent frames after a number, without probes."""
        probe = ABSENT_METHOD.encode()
        frames = self.connection.observer.state.frames[first:]
        return tuple(
            one
            for one in frames
            if one.sender == "agent" and not (one.text.startswith(b"{") and probe in one.text)
        )

    def _failed(self) -> set[str]:
        return set(self.result().reports[0].failed_rules(strict=True))

    def _summary(self) -> str:
        result = self.result()
        report = result.reports[0]
        lines = [
            f"**{verdict(result).text}** "
            f"Send `check: NAME` or `/{COMMAND} NAME` to run a scenario again."
        ]
        for rule in report.problem_rules():
            lines += [
                f"- {report.outcome(rule)}: **{rule.id}** ({rule.level}) {rule.rule} "
                f"Expected {finding.expected}; got {finding.got}. {rule.hint}".rstrip()
                for finding in report.rules[rule.id].failures
            ]
        return "\n".join(lines)
