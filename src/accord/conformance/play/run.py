"""A run against an agent: all scenarios in each version, some at a time, into one result."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from accord.conformance.manifest import requirements
from accord.conformance.play.editor import Editor
from accord.conformance.play.line import Line, Silence
from accord.conformance.play.scenario import NotExercised, Objection, Scenario
from accord.conformance.play.settings import Settings
from accord.conformance.play.stage import Connect, Stage
from accord.conformance.report import Report
from accord.conformance.result import Ending, Played, Result
from accord.errors import TransportError
from accord.excerpt import excerpt

__all__ = ("LANES", "AgentRun")

LANES = 4  # connections at a time, one of which is shared


class AgentRun:
    """Plays scenarios with the agent that `connect` starts.

    `told` hears of each scenario when it is over, `closed` of each connection, with a name.
    """

    def __init__(
        self,
        connect: Connect,
        scenarios: Sequence[Scenario[Stage]],
        settings: Settings,
        *,
        subject: str = "",
        told: Callable[[Played], None] = lambda _: None,
        closed: Callable[[str, Line], None] | None = None,
    ) -> None:
        self.connect = connect
        self.scenarios = scenarios
        self.settings = settings
        self.told = told
        self.closed = closed
        self.result = Result(subject)

    async def run(self, versions: Sequence[int]) -> Result:
        """Play everything; raise `TransportError` when the agent cannot be started."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="accord-check-") as folder:
            for version in versions:
                place = _new_folder(os.path.realpath(folder), f"v{version}")  # noqa: ASYNC240
                await _Part(self, version, place).run()
        self.result.seconds = time.monotonic() - began
        return self.result


class _Part:
    """What is played in one version."""

    def __init__(self, run: AgentRun, version: int, folder: Path) -> None:
        self._run = run
        self._version = version
        self._folder = folder
        self._report = Report(subject=run.result.subject, side="agent", version=version)
        self._connections = 0

    async def run(self) -> None:
        if not await self._speaks():
            return
        self._run.result.reports.append(self._report)
        mine = [one for one in self._run.scenarios if self._version in one.versions]
        shared = [one for one in mine if not one.own]
        waiting = [one for one in mine if one.own]
        async with asyncio.TaskGroup() as group:
            group.create_task(self._share(shared))
            for _ in range(LANES - 1):
                group.create_task(self._take(waiting))

    async def _speaks(self) -> bool:
        """Tell whether the agent speaks this version; say why if it does not."""
        editor = await self._start("handshake")
        try:
            call = await editor.initialize()
        except Silence as silence:
            wrote = f"; it wrote {excerpt(editor.line.noise[0])!r}" if editor.line.noise else ""
            self._run.result.unspoken[self._version] = f"initialize failed: {silence}{wrote}"
            return False
        finally:
            await self._close("handshake", editor)
        answered = editor.result.get("protocolVersion")
        if call.ok and answered == self._version:
            return True
        error = call.reply.error if call.reply else None
        why = f"the agent answered with version {answered}" if call.ok else f"error {error}"
        self._run.result.unspoken[self._version] = why
        return False

    async def _share(self, scenarios: Sequence[Scenario[Stage]]) -> None:
        """Play on one connection, one after the other; a new one when it is lost."""
        editor: Editor | None = None
        for scenario in scenarios:
            try:
                if editor is None:
                    editor = await self._start("shared")
                    await editor.initialize()
            except (Silence, TransportError) as error:
                played = Played(
                    scenario=scenario.name,
                    about=scenario.about,
                    version=self._version,
                    ending="unfinished",
                    reason=str(error),
                )
                self._tell(played)
            else:
                ending = await self._play(scenario, editor)
                if ending != "unfinished" and not editor.line.hung_up:
                    continue
            if editor is not None:
                await self._close("shared", editor)
                editor = None
        if editor is not None:
            await self._close("shared", editor)

    async def _take(self, waiting: list[Scenario[Stage]]) -> None:
        """Play what is left, each on connections of its own."""
        while waiting:
            await self._play(waiting.pop(0), None)

    async def _play(self, scenario: Scenario[Stage], shared: Editor | None) -> Ending:
        played = Played(
            scenario=scenario.name, about=scenario.about, version=self._version, ending="finished"
        )
        why = self._run.settings.skipped(scenario.name)
        if why is not None:
            played.ending, played.reason = "skipped", why
            self._tell(played)
            return "skipped"
        began = time.monotonic()
        folder = _new_folder(str(self._folder), scenario.name.replace("/", "-"))
        stage = Stage(
            scenario,
            self._version,
            self._run.settings,
            folder,
            report=self._report,
            start=self._start,
            close=self._close,
            shared=shared,
        )
        if shared is not None:
            shared.begin(folder, scenario.name)
        try:
            await scenario.play(stage)
        except NotExercised as missed:
            played.ending, played.reason = "not exercised", str(missed)
        except Objection as objection:
            played.ending = "wrong" if objection.wrong else "advised"
            played.reason, played.advice = str(objection), objection.advice
            played.frames = objection.frames
        except (Silence, TransportError) as error:
            played.ending, played.reason = "unfinished", str(error)
        except Exception as error:  # noqa: BLE001  # an answer of no known shape ends no run
            played.ending, played.reason = "unfinished", f"the scenario failed: {error!r}"
        finally:
            await stage.aclose()
        gone = shared is not None and shared.line.hung_up
        played.left = played.ending == "unfinished" and gone
        played.seconds = time.monotonic() - began
        self._tell(played)
        return played.ending

    def _tell(self, played: Played) -> None:
        self._run.result.played.append(played)
        self._run.told(played)

    async def _start(self, name: str) -> Editor:
        """Start the agent."""
        lines: list[Line] = []
        transport = self._run.connect(lambda noise: lines[0].noise_received(noise))
        settings = self._run.settings
        line = Line(transport, "client", answer_s=settings.answer, start_s=settings.timeout)
        lines.append(line)
        line.observer.where = name
        await line.open()
        return Editor(line, self._version, self._run.settings, self._folder)

    async def _close(self, name: str, editor: Editor) -> None:
        """Hang up, and add what the observer has seen."""
        await editor.aclose()
        report = editor.line.observer.finish()
        rules = {
            rule: found
            for rule, found in report.rules.items()
            if self._version in requirements()[rule].versions
        }
        report.rules = rules
        self._report.merge(report)
        self._connections += 1
        if self._run.closed is not None:
            self._run.closed(f"v{self._version}-{self._connections}-{name}", editor.line)


def _new_folder(parent: str, name: str) -> Path:
    folder = Path(parent, name)
    folder.mkdir()
    return folder
