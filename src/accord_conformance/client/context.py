"""Where a scenario for a client is played: one turn of a session that the client has opened."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from accord.text.lenient_json import is_object
from accord_conformance.client.agent import Posed, Posing, Prompted
from accord_conformance.harness.raw_connection import Line, Silence
from accord_conformance.harness.scenario import NotExercised, Scenario
from accord_conformance.judges.base import Seen
from accord_conformance.traffic.frame import Frame
from accord_conformance.traffic.message import Call

__all__ = ("Gone", "Json", "Scene", "outcome_of")

Json: TypeAlias = dict[str, Any]


class Gone(Exception):
    """The client has left, or answers nothing any more: nothing else can be played."""


class Scene:
    """One scenario while it is played; `patience_s` is how long a person may take."""

    def __init__(
        self, scenario: Scenario[Scene], posing: Posing, prompted: Prompted, patience_s: float
    ) -> None:
        self.scenario = scenario
        self.posing = posing
        self.patience_s = patience_s
        self.nobody = False  # was there when a person was asked for
        self._prompted = prompted
        self._folders: list[Path] = []
        self._tools: list[str] = []
        self._last: tuple[str, str, tuple[Frame, ...]] | None = None  # what it went on after

    @property
    def line(self) -> Line:
        """The connection."""
        return self.posing.line

    @property
    def session(self) -> Posed:
        """The session in which the scenario was asked for."""
        return self._prompted.session

    @property
    def version(self) -> int:
        """The version that is spoken."""
        return self.posing.version

    @property
    def cancelled(self) -> bool:
        """Whether the client has cancelled the turn."""
        return self.session.cancels > self._prompted.cancels

    @property
    def offers(self) -> Json:
        """What the client has advertised, as it wrote it."""
        call = self.line.observer.talk.initialized
        params = call.params if call is not None and is_object(call.params) else {}
        found = params.get("clientCapabilities" if self.version == 1 else "capabilities")
        return found if is_object(found) else {}

    def offers_to(self, *path: str) -> bool:
        """Tell whether a capability is advertised."""
        found: Any = self.offers
        for key in path:
            found = found.get(key) if is_object(found) else None
        return found is True or is_object(found)

    def needs(self, holds: bool, why: str) -> None:
        """Raise `NotExercised` unless something holds."""
        if not holds:
            raise NotExercised(why)

    # Telling.

    def judge(self, rule: str, kept: bool, *seen: Seen, expected: str = "", got: str = "") -> None:
        """Tell whether a rule was kept; nothing is told when it is not of this version."""
        assert rule in self.scenario.rules, f"{self.scenario.name} does not name {rule}"
        self.posing.watch.judge(rule, kept, *seen, expected=expected, got=got)

    def say(self, words: str) -> None:
        """Say something to the user."""
        self.posing.say(self.session, words)

    def here(self, **params: Any) -> Json:
        """Return params about this session."""
        return {"sessionId": self.session.id, **params}

    def update(self, kind: str, /, **fields: Any) -> Frame:
        """Send a `session/update`; return it."""
        return self.posing.update(self.session, kind, **fields)

    def tool(self, title: str, **fields: Any) -> str:
        """Tell of a new tool call; return its id."""
        ident = f"{self.scenario.name}-{len(self._tools) + 1}"
        self._tools.append(ident)
        kind = "tool_call" if self.version == 1 else "tool_call_update"
        self.update(kind, **{"toolCallId": ident, "title": title, "status": "pending", **fields})
        return ident

    def send(self, frame: bytes) -> Frame:
        """Send anything; return it."""
        self.line.send(frame)
        return self.posing.last_frame

    def note(self, method: str, params: Any = None) -> Frame:
        """Send a notification; return it."""
        self.line.note(method, params)
        return self.posing.last_frame

    # What the client does then.

    async def goes_on(self, rule: str, what: str, *sent: Frame) -> None:
        """Judge that the client goes on after something; raise `Gone` if it does not."""
        alive = await self.posing.alive()
        got = "it hung up" if self.line.hung_up else "it answers nothing any more"
        self.judge(rule, alive, *sent, expected=f"a client that goes on after {what}", got=got)
        if not alive:
            raise Gone(got)
        self._last = rule, what, sent

    def blame(self, sent: tuple[Frame, ...], got: str) -> None:
        """Judge a client that is gone after the scenario by the rule about what it got last."""
        if self._last is None or not sent:
            return
        rule, what, last = self._last
        if last and last[-1].number == sent[-1].number:
            self.judge(rule, False, *last, expected=f"a client that goes on after {what}", got=got)

    async def ask(self, method: str, params: Any = None, *, ident: Any = None) -> Call:
        """Send a request that no person is needed for; raise `Silence`."""
        return await self.line.call(method, params, ident=ident)

    async def refused(self, rule: str, call: Call, code: int, why: str) -> None:
        """Judge that a request gets an error, and this one; raise `Gone` if the client leaves."""
        expected = f"{code} for {why}"
        try:
            await self.line.reply(call)
        except Silence as silence:
            if self.line.hung_up:
                raise Gone("it hung up") from None
            self.withdraw(call)
            self.judge(rule, False, call, expected=expected, got=str(silence))
            return
        self.judge(rule, call.code == code, call, expected=expected, got=outcome_of(call))

    async def not_refused(self, rule: str, call: Call, why: str) -> bool:
        """Judge that a request which a person may have to answer gets no error."""
        await self.person(call)
        self.judge(rule, call.ok, call, expected=f"a result for {why}", got=outcome_of(call))
        return call.ok

    async def person(self, call: Call) -> None:
        """Wait for a person to answer a request; raise `NotExercised` when nobody does."""
        await self.awaits(lambda: call.reply is not None, call)

    async def awaits(self, holds: Callable[[], bool], call: Call | None = None) -> None:
        """Wait for a person to do something; raise `NotExercised` when nobody does."""
        try:
            await self.line.until(holds, "answer", within_s=self.patience_s)
        except Silence:
            if self.line.hung_up:
                raise Gone("it hung up") from None
            self.nobody = True
            if call is not None:
                self.withdraw(call)
            raise NotExercised("nobody did it in time") from None

    def withdraw(self, call: Call) -> None:
        """Cancel a request of our own."""
        self.line.note("$/cancel_request", {"requestId": call.id})

    def permission(self, title: str, **more: Any) -> Call:
        """Ask for permission, in the shape of the version."""
        params = self.here(options=more.pop("options", OPTIONS))
        if self.version == 1:
            details = {"toolCallId": self.tool(title), "title": title, **more.pop("details", {})}
            params["toolCall"] = details
        else:
            params["title"] = title
            if (details := more.pop("details", None)) is not None:
                known = {"toolCallId": self.tool(title), **details}
                params["subject"] = {"type": "tool_call", "toolCall": known}
        return self.line.ask("session/request_permission", {**params, **more})

    # On the disk.

    async def folder(self) -> Path:
        """Make a folder in the session's directory, for the time of the scenario."""
        return await self._folder(self.session.cwd, ".accord-check-")

    async def outside(self) -> Path:
        """Make a folder outside of all directories of the session; raise `NotExercised`."""
        found = await self._folder(None, "accord-check-")
        real = os.path.realpath(found)  # noqa: ASYNC240  # a few of them, at once
        for root in self.session.all_roots:
            inside = os.path.realpath(root)  # noqa: ASYNC240
            if os.path.commonpath([real, inside]) == inside:
                raise NotExercised("the session's directories hold the folder for temporary files")
        return found

    async def _folder(self, parent: str | None, prefix: str) -> Path:
        try:
            made = await asyncio.to_thread(tempfile.mkdtemp, dir=parent, prefix=prefix)
        except OSError as error:
            raise NotExercised(f"no folder can be made here: {error.strerror}") from None
        self._folders.append(Path(made))
        return self._folders[-1]

    async def aclose(self) -> None:
        """Let tool calls be over, and take away what was made on the disk."""
        if not self.line.hung_up and not self.cancelled:
            for ident in self._tools:
                self.update("tool_call_update", toolCallId=ident, status="completed")
        for folder in self._folders:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


OPTIONS = (
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
)


def outcome_of(call: Call) -> str:
    """Return how a request was answered, in words."""
    if call.reply is None:
        return "no answer"
    return "a result" if call.ok else f"error {call.code}"
