"""A run against a client: what its prompts name is played, and the report written each time."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from accord.text.excerpt import one_line
from accord.text.lenient_json import is_object
from accord.transports.base import Transport
from accord_conformance.client.agent import PAUSE_S, Posing, Prompted
from accord_conformance.client.client_rules import Watch
from accord_conformance.client.context import Gone, Scene
from accord_conformance.client.fixtures import ABSENT_METHOD, COMMAND
from accord_conformance.client.prompt_command import Wish, wish_of
from accord_conformance.harness.raw_connection import Line, Silence
from accord_conformance.harness.scenario import NotExercised, Scenario
from accord_conformance.reports.report import Report
from accord_conformance.reports.run_result import Ending, Played, Result, verdict
from accord_conformance.traffic.frame import Frame
from accord_conformance.traffic.message import Call

__all__ = ("PATIENCE_S", "ClientRun")

PATIENCE_S = 30.0  # for a person to answer, or to do what they were told
_GRACE_S = 0.3
_NAME_CHARACTERS = 200
_KEEP_S = 1.0  # between two reports, while something comes
_REST = 20  # times as long as it took to write one
_SHOWN = 5  # frames of what a client got before it went away
_SILENCES = 3  # requests without an answer: then nothing else is played
_END_S = 24 * 3600.0  # a client may stay open all day


class _Terminated(Exception):
    """A signal came while the client had not hung up."""


class ClientRun:
    """Poses as an agent on a transport until the client leaves.

    `written` gets the result soon after something came, after each scenario, and at the end,
    whatever the end is. An error in the kit ends no run: it is in the result.
    """

    def __init__(
        self,
        transport: Transport,
        scenarios: Sequence[Scenario[Scene]],
        *,
        versions: tuple[int, ...] = (1, 2),
        answer: int | None = None,
        login: bool = False,
        pause_s: float = PAUSE_S,
        answer_s: float = 10.0,
        patience_s: float = PATIENCE_S,
        written: Callable[[Result], None] = lambda _: None,
    ) -> None:
        self.line = Line(transport, "agent", answer_s=answer_s)
        self.scenarios = scenarios
        self.patience_s = patience_s
        self._own = Report()
        self._played: list[Played] = []
        self._began = time.monotonic()
        self._written = written
        self._watch = Watch(self._own, lambda: self.line.observer.talk.version)
        self._tasks: asyncio.TaskGroup | None = None
        self._posing = Posing(
            self.line,
            self._watch,
            self._play,
            self._start,
            versions=versions,
            answer=answer,
            login=login,
            pause_s=pause_s,
        )
        self._nobody = False
        self._silences = 0

    async def run(self) -> Result:
        """Serve until the client hangs up; raise `TransportError` when there is no way to it."""
        await self.line.open()
        try:
            await self._serve()
            self._watch.finished(self.line)
            self.line.observer.finish()
        finally:
            # Also when it is interrupted.
            result = self.result()
            self._written(result)
        return result

    async def _serve(self) -> None:
        try:
            async with asyncio.TaskGroup() as self._tasks:
                keeping = self._tasks.create_task(self._keep_written())
                with suppress(Silence):
                    await self.line.until(lambda: self.line.hung_up, "end", within_s=_END_S)
                keeping.cancel()
        except* _Terminated:
            self._watch.terminated(self.line)
        finally:
            await self.line.aclose()

    async def _keep_written(self) -> None:
        """Write what there is while it grows: a client may end us at any time."""
        frames, rest_s = 0, _KEEP_S
        while True:
            await asyncio.sleep(rest_s)
            if (now := len(self.line.observer.talk.frames)) != frames:
                frames, began = now, time.monotonic()
                self._written(self.result())
                # Of a day's frames it takes a while, in which nothing is answered.
                rest_s = max(_KEEP_S, _REST * (time.monotonic() - began))

    def terminate(self) -> None:
        """End: a signal wants it, which the client may have sent instead of hanging up."""
        if not self.line.hung_up:
            self._start(self._terminate())

    async def _terminate(self) -> None:
        # What was closed just before the signal may not be read yet.
        try:
            await self.line.until(lambda: self.line.hung_up, "end", within_s=_GRACE_S)
        except Silence:
            raise _Terminated from None

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._tasks is not None
        self._tasks.create_task(self._guarded(work))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except _Terminated:
            raise
        except Silence:
            return  # what was waited for is judged where it is waited for
        except Exception:  # noqa: BLE001  # a mistake of the kit ends no run
            self.line.fault()

    def result(self) -> Result:
        """Return what has been found so far."""
        observed = self.line.observer.report
        report = Report(subject=self._subject(), side="client")
        report.version = self.line.observer.talk.version
        report.merge(observed)
        report.merge(self._own)
        report.frames = len(self.line.observer.talk.frames)
        seconds = time.monotonic() - self._began
        return Result(
            self._subject(),
            [report],
            list(self._played),
            seconds=seconds,
            faults=list(self.line.faults),
        )

    def _subject(self) -> str:
        call: Call | None = self.line.observer.talk.initialized
        params = call.params if call is not None and is_object(call.params) else {}
        info = params.get("clientInfo") or params.get("info")
        if not is_object(info):
            return "client"
        name = f"{info.get('title') or info.get('name')} {info.get('version', '')}"
        return one_line(name.strip(), _NAME_CHARACTERS)

    # Prompts.

    async def _play(self, prompted: Prompted) -> None:
        mine = [one for one in self.scenarios if self._posing.version in one.versions]
        wish = wish_of(prompted.text, mine)
        match wish:
            case Wish(scenarios=()):
                self._posing.say(prompted.session, wish.words)
            case Wish():
                await self._play_all(prompted, wish.scenarios)

    async def _play_all(self, prompted: Prompted, scenarios: Sequence[Scenario[Scene]]) -> None:
        waiting = list(scenarios)
        while waiting:
            scenario = waiting.pop(0)
            if prompted.session.cancels > prompted.cancels:
                words = (
                    f"This turn was cancelled: `{scenario.name}` and what follows is not played."
                )
                self._posing.say(prompted.session, words)
                break
            if not await self._play_one(prompted, scenario):
                self._left_out(waiting)
                break
        self._posing.say(prompted.session, self._summary())

    def _left_out(self, scenarios: Sequence[Scenario[Scene]]) -> None:
        """Tell of the scenarios for which there is no client any more."""
        why = "hung up" if self.line.hung_up else "does not answer"
        for one in scenarios:
            played = Played(
                scenario=one.name,
                about=one.about,
                version=self._posing.version,
                ending="unfinished",
                reason=f"not played, as the client {why}",
            )
            self._played.append(played)

    async def _play_one(self, prompted: Prompted, scenario: Scenario[Scene]) -> bool:
        """Play a scenario; return whether the client is there, and answers most of the time."""
        patience_s = 0.0 if self._nobody else self.patience_s
        scene = Scene(scenario, self._posing, prompted, patience_s)
        self._watch.where = self.line.observer.where = scenario.name
        before = self._failed()
        first = len(self.line.observer.talk.frames)
        began = time.monotonic()
        ending: Ending = "finished"
        reason = advice = trace = ""
        goes_on, left = True, False
        try:
            await scenario.play(scene)
        except NotExercised as missed:
            ending, reason = "not exercised", str(missed)
        except Gone as gone:
            ending, reason, goes_on = "unfinished", str(gone), False
            left = self.line.hung_up and not scene.nobody
        except Silence as silence:
            left = self.line.hung_up
            ending, reason = "unfinished", str(silence)
            if not self.line.hung_up:
                ending, advice = "wrong", "Answer it, if only with an error: agents wait for that."
                self._silences += 1
                goes_on = self._silences < _SILENCES
        except Exception as error:  # noqa: BLE001  # a mistake of the kit ends no run
            ending, reason, trace = "error in the kit", repr(error), traceback.format_exc()
        finally:
            sent = self._sent(first)
            await scene.aclose()
        if ending in ("finished", "not exercised") and not await self._posing.responds():
            goes_on, left = False, self.line.hung_up
            ending = "unfinished" if left else "wrong"
            got = "it went away" if left else "it does not answer any more"
            reason, advice = f"{got} after this scenario", "What it got last must not stop it."
            scene.blame(sent, got)
        left = left and not scene.cancelled
        self._watch.where = self.line.observer.where = ""
        self._nobody |= scene.nobody
        played = Played(
            scenario=scenario.name,
            about=scenario.about,
            version=self._posing.version,
            ending=ending,
            reason=reason,
            seconds=time.monotonic() - began,
            left=left,
            advice=advice,
            frames=sent[-_SHOWN:] if left else (),
            traceback=trace,
        )
        self._played.append(played)
        new = sorted(self._failed() - before)
        how = f"{ending}: {reason}" if reason else "played"
        broken = f"; broken: {', '.join(new)}" if new else ""
        if not self.line.hung_up:
            self._posing.say(prompted.session, f"`{scenario.name}` {how}{broken}")
        self._written(self.result())
        return not self.line.hung_up and goes_on

    def _sent(self, first: int) -> tuple[Frame, ...]:
        """Return what was sent from some frame on, other than probes."""
        probe = ABSENT_METHOD.encode()
        frames = self.line.observer.talk.frames[first:]
        return tuple(
            one
            for one in frames
            if one.sender == "agent" and not (one.text.startswith(b"{") and probe in one.text)
        )

    def _failed(self) -> set[str]:
        return set(self.result().reports[0].broken(strict=True))

    def _summary(self) -> str:
        result = self.result()
        report = result.reports[0]
        lines = [
            f"**{verdict(result).words}** "
            f"Say `check: NAME` or `/{COMMAND} NAME` to play a scenario again."
        ]
        for rule in report.problems():
            lines += [
                f"- {report.outcome(rule)}: **{rule.id}** ({rule.level}) {rule.rule} "
                f"Expected {finding.expected}; got {finding.got}. {rule.hint}".rstrip()
                for finding in report.rules[rule.id].failures
            ]
        return "\n".join(lines)
