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
from accord_conformance.client.agent import ActivePrompt, ClientOpenedSession, ScenarioAgent
from accord_conformance.harness.raw_connection import NoResponse, RawConnection
from accord_conformance.harness.scenario import NotExercised, Scenario
from accord_conformance.judges.base import Evidence
from accord_conformance.traffic.frame import Frame
from accord_conformance.traffic.message import Request

__all__ = ("ClientContext", "ClientGone", "Json", "describe_outcome")

Json: TypeAlias = dict[str, Any]


class ClientGone(Exception):
    """The client has left, or answers nothing any more: nothing else can be played."""


class ClientContext:
    """One scenario while it is played; `patience_s` is how long a person may take."""

    def __init__(
        self,
        scenario: Scenario[ClientContext],
        agent: ScenarioAgent,
        prompted: ActivePrompt,
        user_timeout_s: float,
    ) -> None:
        self.scenario = scenario
        self.agent = agent
        self.user_timeout_s = user_timeout_s
        self.user_absent = False  # was there when a person was asked for
        self._prompted = prompted
        self._folders: list[Path] = []
        self._tools: list[str] = []
        self._last: tuple[str, str, tuple[Frame, ...]] | None = None  # what it went on after

    @property
    def connection(self) -> RawConnection:
        """The connection."""
        return self.agent.connection

    @property
    def session(self) -> ClientOpenedSession:
        """The session in which the scenario was asked for."""
        return self._prompted.session

    @property
    def version(self) -> int:
        """The version that is spoken."""
        return self.agent.version

    @property
    def cancelled(self) -> bool:
        """Whether the client has cancelled the turn."""
        return self.session.cancels > self._prompted.cancels

    @property
    def capabilities(self) -> Json:
        """What the client has advertised, as it wrote it."""
        call = self.connection.observer.state.initialized
        params = call.params if call is not None and is_object(call.params) else {}
        found = params.get("clientCapabilities" if self.version == 1 else "capabilities")
        return found if is_object(found) else {}

    def supports(self, *path: str) -> bool:
        """Tell whether a capability is advertised."""
        found: Any = self.capabilities
        for key in path:
            found = found.get(key) if is_object(found) else None
        return found is True or is_object(found)

    def require(self, holds: bool, why: str) -> None:
        """Raise `NotExercised` unless something holds."""
        if not holds:
            raise NotExercised(why)

    # Telling.

    def judge(
        self, rule: str, passed: bool, *seen: Evidence, expected: str = "", got: str = ""
    ) -> None:
        """Tell whether a rule was kept; nothing is told when it is not of this version."""
        assert rule in self.scenario.rules, f"{self.scenario.name} does not name {rule}"
        self.agent.rules.judge(rule, passed, *seen, expected=expected, got=got)

    def say(self, words: str) -> None:
        """Say something to the user."""
        self.agent.say(self.session, words)

    def session_params(self, **params: Any) -> Json:
        """Return params about this session."""
        return {"sessionId": self.session.id, **params}

    def update(self, kind: str, /, **fields: Any) -> Frame:
        """Send a `session/update`; return it."""
        return self.agent.update(self.session, kind, **fields)

    def add_tool_call(self, title: str, **fields: Any) -> str:
        """Tell of a new tool call; return its id."""
        ident = f"{self.scenario.name}-{len(self._tools) + 1}"
        self._tools.append(ident)
        kind = "tool_call" if self.version == 1 else "tool_call_update"
        self.update(kind, **{"toolCallId": ident, "title": title, "status": "pending", **fields})
        return ident

    def send(self, frame: bytes) -> Frame:
        """Send anything; return it."""
        self.connection.send(frame)
        return self.agent.last_frame

    def send_notification(self, method: str, params: Any = None) -> Frame:
        """Send a notification; return it."""
        self.connection.send_notification(method, params)
        return self.agent.last_frame

    # What the client does then.

    async def expect_alive(self, rule: str, what: str, *sent: Frame) -> None:
        """Judge that the client goes on after something; raise `Gone` if it does not."""
        alive = await self.agent.is_alive()
        got = "it hung up" if self.connection.is_closed else "it answers nothing any more"
        self.judge(rule, alive, *sent, expected=f"a client that goes on after {what}", got=got)
        if not alive:
            raise ClientGone(got)
        self._last = rule, what, sent

    def blame(self, sent: tuple[Frame, ...], got: str) -> None:
        """Judge a client that is gone after the scenario by the rule about what it got last."""
        if self._last is None or not sent:
            return
        rule, what, last = self._last
        if last and last[-1].number == sent[-1].number:
            self.judge(rule, False, *last, expected=f"a client that goes on after {what}", got=got)

    async def call(self, method: str, params: Any = None, *, ident: Any = None) -> Request:
        """Send a request that no person is needed for; raise `Silence`."""
        return await self.connection.call(method, params, ident=ident)

    async def expect_error(self, rule: str, call: Request, code: int, why: str) -> None:
        """Judge that a request gets an error, and this one; raise `Gone` if the client leaves."""
        expected = f"{code} for {why}"
        try:
            await self.connection.wait_for_response(call)
        except NoResponse as silence:
            if self.connection.is_closed:
                raise ClientGone("it hung up") from None
            self.cancel_request(call)
            self.judge(rule, False, call, expected=expected, got=str(silence))
            return
        self.judge(rule, call.code == code, call, expected=expected, got=describe_outcome(call))

    async def expect_success(self, rule: str, call: Request, why: str) -> bool:
        """Judge that a request which a person may have to answer gets no error."""
        await self.wait_for_person(call)
        self.judge(rule, call.ok, call, expected=f"a result for {why}", got=describe_outcome(call))
        return call.ok

    async def wait_for_person(self, call: Request) -> None:
        """Wait for a person to answer a request; raise `NotExercised` when nobody does."""
        await self.wait_for_user_action(lambda: call.response is not None, call)

    async def wait_for_user_action(
        self, holds: Callable[[], bool], call: Request | None = None
    ) -> None:
        """Wait for a person to do something; raise `NotExercised` when nobody does."""
        try:
            await self.connection.wait_until(holds, "answer", within_s=self.user_timeout_s)
        except NoResponse:
            if self.connection.is_closed:
                raise ClientGone("it hung up") from None
            self.user_absent = True
            if call is not None:
                self.cancel_request(call)
            raise NotExercised("nobody did it in time") from None

    def cancel_request(self, call: Request) -> None:
        """Cancel a request of our own."""
        self.connection.send_notification("$/cancel_request", {"requestId": call.id})

    def request_permission(self, title: str, **more: Any) -> Request:
        """Ask for permission, in the shape of the version."""
        params = self.session_params(options=more.pop("options", OPTIONS))
        if self.version == 1:
            details = {
                "toolCallId": self.add_tool_call(title),
                "title": title,
                **more.pop("details", {}),
            }
            params["toolCall"] = details
        else:
            params["title"] = title
            if (details := more.pop("details", None)) is not None:
                known = {"toolCallId": self.add_tool_call(title), **details}
                params["subject"] = {"type": "tool_call", "toolCall": known}
        return self.connection.send_request("session/request_permission", {**params, **more})

    # On the disk.

    async def make_folder(self) -> Path:
        """Make a folder in the session's directory, for the time of the scenario."""
        return await self._make_folder(self.session.cwd, ".accord-check-")

    async def make_outside_folder(self) -> Path:
        """Make a folder outside of all directories of the session; raise `NotExercised`."""
        found = await self._make_folder(None, "accord-check-")
        real = os.path.realpath(found)  # noqa: ASYNC240  # a few of them, at once
        for root in self.session.directories:
            inside = os.path.realpath(root)  # noqa: ASYNC240
            if os.path.commonpath([real, inside]) == inside:
                raise NotExercised("the session's directories hold the folder for temporary files")
        return found

    async def _make_folder(self, parent: str | None, prefix: str) -> Path:
        try:
            made = await asyncio.to_thread(tempfile.mkdtemp, dir=parent, prefix=prefix)
        except OSError as error:
            raise NotExercised(f"no folder can be made here: {error.strerror}") from None
        self._folders.append(Path(made))
        return self._folders[-1]

    async def aclose(self) -> None:
        """Let tool calls be over, and take away what was made on the disk."""
        if not self.connection.is_closed and not self.cancelled:
            for ident in self._tools:
                self.update("tool_call_update", toolCallId=ident, status="completed")
        for folder in self._folders:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


OPTIONS = (
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
)


def describe_outcome(call: Request) -> str:
    """Return how a request was answered, in words."""
    if call.response is None:
        return "no answer"
    return "a result" if call.ok else f"error {call.code}"
