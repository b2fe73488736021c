"""A run against an agent: all scenarios in each version, some at a time, into one result."""

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
from accord_conformance.agent.client import Editor
from accord_conformance.agent.context import Connect, Stage
from accord_conformance.agent.settings import Settings
from accord_conformance.agent.turn_timeout import Patience
from accord_conformance.harness.process_end import Veil, exit_words, last_words
from accord_conformance.harness.raw_connection import Line, NoSession, Silence
from accord_conformance.harness.scenario import LoginWanted, NotExercised, Objection, Scenario
from accord_conformance.judges.base import found
from accord_conformance.reports.finding import Finding
from accord_conformance.reports.report import Report
from accord_conformance.reports.run_result import Ending, Login, Played, Result
from accord_conformance.rules.manifest import requirements
from accord_conformance.traffic.message import Call
from accord_conformance.traffic.strict_types import shown

__all__ = ("LANES", "AgentRun")

_CHARACTERS = 200  # of what the agent says for itself

_SPENT = "the time budget was spent"
_UNCERTAIN = ("unfinished", "error in the kit")  # then the connection is not used again
_TRIES = 3  # requests for a session without an answer: then nothing else is asked
LANES = 4  # connections at a time, one of which is shared


class AgentRun:
    """Plays scenarios with the agent that `connect` starts.

    `begun` hears of each version and scenario when it begins, `told` of each scenario when it is
    over, `closed` of each connection, with a name. `total` is how many scenarios there are, as far
    as that is known. A run that takes longer than `budget_s` ends there.
    """

    def __init__(
        self,
        connect: Connect,
        scenarios: Sequence[Scenario[Stage]],
        settings: Settings,
        *,
        subject: str = "",
        budget_s: float | None = None,
        begun: Callable[[int, str], None] = lambda _, __: None,
        told: Callable[[Played], None] = lambda _: None,
        closed: Callable[[str, Line], None] | None = None,
    ) -> None:
        self.connect = connect
        self.scenarios = scenarios
        self.settings = settings
        self.budget_s = budget_s
        self.begun = begun
        self.told = told
        self.closed = closed
        self.total = 0
        self.result = Result(subject)
        self.mute = False  # it was asked in one version, and said nothing: another takes as long
        self.false_v2: Finding | None = None
        self._ends = float("inf")  # by the clock of the loop

    @property
    def spent(self) -> bool:
        """Whether the time budget is spent."""
        return asyncio.get_running_loop().time() >= self._ends

    def in_time(self) -> asyncio.Timeout:
        """Return what ends the block with `TimeoutError` when the time budget is spent."""
        return asyncio.timeout_at(None if self.budget_s is None else self._ends)

    async def run(self, versions: Sequence[int]) -> Result:
        """Play everything; raise `TransportError` when the agent cannot be started."""
        began = time.monotonic()
        if self.budget_s is not None:
            self._ends = asyncio.get_running_loop().time() + self.budget_s
        with tempfile.TemporaryDirectory(prefix="accord-check-") as folder:
            root = os.path.realpath(folder)  # noqa: ASYNC240
            for version in versions:
                await self._version(version, root)
            if self.false_v2 is not None:
                if 1 not in versions:
                    await self._version(1, root)
                self._tell_of_false_v2(self.false_v2)
        if self.spent:
            self.result.spent_s = self.budget_s
        self.result.seconds = time.monotonic() - began
        return self.result

    async def _version(self, version: int, root: str) -> None:
        if self.mute or self.spent:
            why = "the agent answered nothing before" if self.mute else _SPENT
            self.result.unspoken[version] = why
            return
        await _Part(self, version, _new_folder(root, f"v{version}")).run()

    def _tell_of_false_v2(self, finding: Finding) -> None:
        """Put the fault into the report of version 1, unless a scenario found it there."""
        for report in self.result.checked:
            known = report.rules.get(finding.rule)
            if report.version == 1 and (known is None or not known.broken):
                report.add(finding)


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
        self._settles = True  # requests of unknown methods are answered

    async def run(self) -> None:
        self._run.begun(self._version, "handshake")
        if not await self._speaks():
            broken = any(found.broken for found in self._report.rules.values())
            if broken or self._report.faults:
                self._run.result.reports.append(self._report)
            return
        self._run.result.reports.append(self._report)
        mine = [one for one in self._run.scenarios if self._version in one.versions]
        shared = [one for one in mine if not one.own]
        waiting = [one for one in mine if one.own]
        self._run.total += len(mine)
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
            async with self._run.in_time():
                call = await editor.initialize()
        except TimeoutError:
            silence = Silence(f"no answer to initialize: {_SPENT}")
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
        false = self._version == 2 and agreed and _is_false_v2(editor.result)
        speaks = agreed and answered == self._version and not false
        # An answer with another version is checked when that is spoken.
        negotiated = agreed and not speaks and not false and answered in (1, 2)
        await self._close("handshake", editor, told=not negotiated and not false)
        if speaks:
            self._login.offered = _ids(editor.result.get("authMethods"))
            return True
        veil = Veil(self._run.settings.env)
        if false:
            self._run.false_v2 = found(
                "R-INIT-06",
                False,
                "agent",
                call,
                expected="version 1, as the result has the shape of version 1",
                got="version 2",
                where="handshake",
            )
            why = (
                "the agent answers initialize with version 2, but in the shape of version 1 "
                "(R-INIT-06): it is judged in version 1"
            )
        elif silence is not None:
            why = f"initialize failed: {silence}"
        elif call is not None and not call.ok:
            why = f"error {_excerpt(veil(_error(call)))}"
        elif negotiated:
            why = f"the agent answered with version {answered}"
        else:
            result = veil(shown(call.result if call else None))
            why = f"no version was agreed: the agent answered {result}"
        if not negotiated and not false:
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
                    async with self._run.in_time():
                        await editor.initialize()
            except (Silence, TransportError, TimeoutError) as error:
                played = Played(
                    scenario=scenario.name,
                    about=scenario.about,
                    version=self._version,
                    ending="unfinished",
                    reason=_SPENT if isinstance(error, TimeoutError) else str(error),
                )
                self._tell(played)
            else:
                ending = await self._play(scenario, editor)
                if ending not in _UNCERTAIN and not editor.line.hung_up:
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
        if self._unanswered < _TRIES and not self._run.spent:
            return False
        played = Played(
            scenario=scenario.name, about=scenario.about, version=self._version, ending="unfinished"
        )
        why = f"as {_SPENT}" if self._run.spent else "as the agent does not answer"
        played.reason = f"not played, {why}"
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
        self._run.begun(self._version, scenario.name)
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
        limit = self._run.in_time()
        try:
            async with limit:
                await scenario.play(stage)
                if shared is not None:
                    await self._responds(shared)
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
        except Exception as error:  # noqa: BLE001  # a mistake of the kit ends no run
            if isinstance(error, TimeoutError) and limit.expired():
                played.ending, played.reason = "unfinished", _SPENT
            else:
                played.ending, played.reason = "error in the kit", repr(error)
                played.traceback = traceback.format_exc()
        finally:
            await stage.aclose()
        if shared is not None and shared.line.hung_up:
            if played.ending in ("finished", "not exercised"):
                played.ending, played.reason = "unfinished", "the peer hung up"
            if played.ending == "unfinished":
                await self._gone(played, shared)
        played.seconds = time.monotonic() - began
        self._tell(played)
        return played.ending

    async def _responds(self, editor: Editor) -> None:
        """Return when the agent has answered something: by then it has read all of a scenario.

        Whether it is still there is judged where it counts, so its death counts for this scenario.
        """
        if not self._settles or editor.line.hung_up:
            return
        with suppress(Silence):
            await editor.line.call("_accord/settle", {})
            return
        self._settles = False

    async def _gone(self, played: Played, editor: Editor) -> None:
        """Say of a scenario in which the agent went away what came before, and how it ended."""
        line = editor.line
        played.left = True
        played.frames = line.last_sent()
        ended = await line.ended()
        how = _last(line, ended, ended, Veil(self._run.settings.env))
        played.reason += how.replace(":\n    ", ": ").replace("\n    ", " | ")

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
        self._run.result.faults += editor.line.faults
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


@tolerates("false-v2")
def _is_false_v2(result: dict[str, Any]) -> bool:
    """Return whether an agent says version 2 and speaks version 1, in which it is judged then.

    A result with nothing but the number is one of version 1: version 2 requires `info`.
    """
    is_bare = not is_object(result.get("info")) and "capabilities" not in result
    return result.get("protocolVersion") == 2 and (is_bare or is_false_v2(result))


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
