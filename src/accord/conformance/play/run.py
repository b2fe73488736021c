"""A run against an agent: all scenarios in each version, some at a time, into one result."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from accord.conformance.manifest import requirements
from accord.conformance.message import Call
from accord.conformance.play.editor import Editor
from accord.conformance.play.ending import Veil, exit_words, last_words
from accord.conformance.play.line import Line, NoSession, Silence
from accord.conformance.play.patience import Patience
from accord.conformance.play.scenario import LoginWanted, NotExercised, Objection, Scenario
from accord.conformance.play.settings import Settings
from accord.conformance.play.stage import Connect, Stage
from accord.conformance.report import Report
from accord.conformance.result import Ending, Login, Played, Result
from accord.conformance.shapes import shown
from accord.errors import TransportError
from accord.excerpt import excerpt
from accord.jsontext import is_array, is_object

__all__ = ("LANES", "AgentRun")

_CHARACTERS = 200  # of what the agent says for itself

_TRIES = 3  # requests for a session without an answer: then nothing else is asked
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
        self.mute = False  # it was asked in one version, and said nothing: another takes as long

    async def run(self, versions: Sequence[int]) -> Result:
        """Play everything; raise `TransportError` when the agent cannot be started."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="accord-check-") as folder:
            for version in versions:
                if self.mute:
                    self.result.unspoken[version] = "the agent answered nothing before"
                    continue
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
        self._login = Login(
            version=version, scenarios=[], turns=0, offered=[], tried=run.settings.login
        )
        self._connections = 0
        self._patience = Patience(run.settings)
        self._unanswered = 0  # requests for a session

    async def run(self) -> None:
        if not await self._speaks():
            if any(found.broken for found in self._report.rules.values()):
                self._run.result.reports.append(self._report)
            return
        self._run.result.reports.append(self._report)
        mine = [one for one in self._run.scenarios if self._version in one.versions]
        shared = [one for one in mine if not one.own]
        waiting = [one for one in mine if one.own]
        async with asyncio.TaskGroup() as group:
            group.create_task(self._share(shared))
            for _ in range(LANES - 1):
                group.create_task(self._take(waiting))
        if self._login.scenarios:
            self._login.scenarios.sort()
            self._run.result.logins.append(self._login)

    async def _speaks(self) -> bool:
        """Tell whether the agent speaks this version; say why if it does not."""
        editor = await self._start("handshake")
        line = editor.line
        lost: Exception | None = None
        silence: Silence | None = None
        call: Call | None = None
        try:
            call = await editor.initialize()
        except Silence as error:
            silence = error
            said = any(frame.sender == "agent" for frame in line.observer.talk.frames)
            self._run.mute = not said and not line.hung_up
            if line.hung_up:
                lost = await line.ended()  # before it is ended by us
        except BaseException:
            await editor.aclose()
            raise
        answered = editor.result.get("protocolVersion")
        agreed = call is not None and call.ok  # with a login, if there is one to be made
        speaks = agreed and answered == self._version
        # An answer with another version is checked when that is spoken.
        negotiated = agreed and not speaks and answered in (1, 2)
        await self._close("handshake", editor, told=not negotiated)
        if speaks:
            self._login.offered = _ids(editor.result.get("authMethods"))
            return True
        veil = Veil(self._run.settings.env)
        if silence is not None:
            why = f"initialize failed: {silence}"
        elif call is not None and not call.ok:
            why = f"error {_excerpt(veil(_error(call)))}"
        elif negotiated:
            why = f"the agent answered with version {answered}"
        else:
            result = veil(shown(call.result if call else None))
            why = f"no version was agreed: the agent answered {result}"
        if not negotiated:
            why += _last(line, lost, await line.ended(), veil)
        self._run.result.unspoken[self._version] = why
        return False

    async def _share(self, scenarios: Sequence[Scenario[Stage]]) -> None:
        """Play on one connection, one after the other; a new one when it is lost."""
        editor: Editor | None = None
        for scenario in scenarios:
            if self._given_up(scenario):
                continue
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
            scenario = waiting.pop(0)
            if not self._given_up(scenario):
                await self._play(scenario, None)

    def _given_up(self, scenario: Scenario[Stage]) -> bool:
        """Tell whether a scenario is left out, since the agent makes no sessions anyway."""
        if self._unanswered < _TRIES:
            return False
        played = Played(
            scenario=scenario.name, about=scenario.about, version=self._version, ending="unfinished"
        )
        played.reason = "not played, as the agent does not answer"
        self._tell(played)
        return True

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
        except LoginWanted as missed:
            played.ending, played.reason = "not exercised", str(missed)
            self._login.scenarios.append(scenario.name)
        except NotExercised as missed:
            played.ending, played.reason = "not exercised", str(missed)
        except Objection as objection:
            played.ending = "wrong" if objection.wrong else "advised"
            played.reason, played.advice = str(objection), objection.advice
            played.frames = objection.frames
        except NoSession as silence:
            self._unanswered += 1
            played.ending, played.reason = "unfinished", str(silence)
            if self._unanswered == _TRIES:
                played.ending = "wrong"
                played.reason = f"{_TRIES} requests for a session got no answer"
                played.advice = "Nothing else was played: it would have waited in vain, too."
        except (Silence, TransportError) as error:
            played.ending, played.reason = "unfinished", str(error)
        except Exception as error:  # noqa: BLE001  # an answer of no known shape ends no run
            played.ending, played.reason = "unfinished", f"the scenario failed: {error!r}"
        finally:
            await stage.aclose()
        if played.ending == "unfinished" and shared is not None and shared.line.hung_up:
            played.left = True
            ended = await shared.line.ended()
            how = _last(shared.line, ended, ended, Veil(self._run.settings.env))
            played.reason += how.replace(":\n    ", ": ").replace("\n    ", " | ")
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
        return Editor(line, self._version, settings, self._folder, self._patience)

    async def _close(self, name: str, editor: Editor, *, told: bool = True) -> None:
        """Hang up, and add what the observer has seen."""
        await editor.aclose()
        report = editor.line.observer.finish()
        rules = {
            rule: found
            for rule, found in report.rules.items()
            if told and self._version in requirements()[rule].versions
        }
        report.rules = rules
        self._report.merge(report)
        self._logins(editor)
        self._connections += 1
        if self._run.closed is not None:
            self._run.closed(f"v{self._version}-{self._connections}-{name}", editor.line)

    def _logins(self, editor: Editor) -> None:
        """Remember whether the login of the settings failed, and that turns were taken."""
        call = editor.logged_in
        if call is not None and not call.ok:
            veil = Veil(self._run.settings.env)
            self._login.error = _excerpt(veil(_error(call)))
        calls = editor.line.observer.talk.calls
        self._login.turns += sum(one.ok for one in calls if one.method == "session/prompt")


def _ids(methods: Any) -> list[str]:
    """Return the ids of logins."""
    found = [one for one in methods if is_object(one)] if is_array(methods) else []
    ids = (one.get("methodId", one.get("id")) for one in found)
    return [excerpt(ident) for ident in ids if isinstance(ident, str)]


def _last(line: Line, lost: Exception | None, ended: Exception | None, veil: Veil) -> str:
    """Say how an agent ended that did not get far, and what it wrote besides frames."""
    parts = [exit_words(lost)]
    if line.noise:
        parts.append(f"it wrote {_excerpt(veil(line.noise[0]))!r}")
    if words := last_words(ended, veil):
        parts.append("its last words on stderr:\n" + "\n".join(f"    {one}" for one in words))
    return "".join(f"; {part}" for part in parts if part)


def _error(call: Call) -> str:
    return shown(call.reply.error) if call.reply else "none"


def _excerpt(text: str) -> str:
    return excerpt(text, _CHARACTERS)


def _new_folder(parent: str, name: str) -> Path:
    folder = Path(parent, name)
    folder.mkdir()
    return folder
