"""The context of a scenario for clients: one turn of a session that the client has opened."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from accord.text.lenient_json import is_object
from accord_conformance.client.fixtures import ActivePrompt, ClientOpenedSession
from accord_conformance.client.scenario_agent import ScenarioAgent
from accord_conformance.harness import NoResponse, NotExercised, RawConnection, Scenario
from accord_conformance.judges.base import Evidence
from accord_conformance.rules.manifest import Authority
from accord_conformance.traffic.message import Frame, Request

if TYPE_CHECKING:
    from accord_conformance.client.network import NetworkEnd  # needs the extra `remote`


Json: TypeAlias = dict[str, Any]


class ClientGone(Exception):
    """The client has disconnected or does not respond any more: no other scenario can run."""


class ClientContext:
    """A running scenario; `user_timeout_s` is the time limit for the user."""

    def __init__(
        self,
        scenario: Scenario[ClientContext],
        agent: ScenarioAgent,
        prompted: ActivePrompt,
        user_timeout_s: float,
        network: NetworkEnd | None = None,
    ) -> None:
        self.scenario = scenario
        self.agent = agent
        self.user_timeout_s = user_timeout_s
        self.user_absent = False  # when a scenario needed the user
        self._prompted = prompted
        self.network = network
        self.may_leave = False  # after what the scenario has done
        self._folders: list[Path] = []
        self._tools: list[str] = []

    @property
    def connection(self) -> RawConnection:
        """The connection."""
        return self.agent.connection

    @property
    def session(self) -> ClientOpenedSession:
        """The session of the prompt that named the scenario."""
        return self._prompted.session

    @property
    def version(self) -> int:
        """The agreed version."""
        return self.agent.version

    @property
    def cancelled(self) -> bool:
        """Whether the client has cancelled the turn."""
        return self.session.cancels > self._prompted.cancels

    @property
    def capabilities(self) -> Json:
        """The capabilities of the client, as it wrote them."""
        call = self.connection.observer.state.initialized
        params = call.params if call is not None and is_object(call.params) else {}
        found = params.get("clientCapabilities" if self.version == 1 else "capabilities")
        return found if is_object(found) else {}

    def supports(self, *path: str) -> bool:
        """Return whether the client advertises a capability."""
        found: Any = self.capabilities
        for key in path:
            found = found.get(key) if is_object(found) else None
        return found is True or is_object(found)

    def require(self, holds: bool, why: str) -> None:
        """Raise `NotExercised` unless a condition holds."""
        if not holds:
            raise NotExercised(why)

    # Findings and updates.

    def judge(
        self,
        rule: str,
        passed: bool,
        *seen: Evidence,
        expected: str = "",
        got: str = "",
        authority: Authority | None = None,
    ) -> None:
        """Add a finding about a rule, if the rule applies to this version."""
        assert rule in self.scenario.rules, f"{self.scenario.name} does not name {rule}"
        self.agent.rules.judge(rule, passed, *seen, expected=expected, got=got, authority=authority)

    def say(self, words: str) -> None:
        """Send a message to the user."""
        self.agent.say(self.session, words)

    def session_params(self, **params: Any) -> Json:
        """Return params with the id of this session."""
        return {"sessionId": self.session.id, **params}

    def update(self, kind: str, /, **fields: Any) -> Frame:
        """Send a `session/update`; return it."""
        return self.agent.update(self.session, kind, **fields)

    def add_tool_call(self, title: str, **fields: Any) -> str:
        """Report a new tool call; return its id."""
        ident = f"{self.scenario.name}-{len(self._tools) + 1}"
        self._tools.append(ident)
        kind = "tool_call" if self.version == 1 else "tool_call_update"
        self.update(kind, **{"toolCallId": ident, "title": title, "status": "pending", **fields})
        return ident

    def send(self, frame: bytes) -> Frame:
        """Send any bytes as a frame; return it."""
        self.connection.send(frame)
        return self.agent.last_frame

    def send_notification(self, method: str, params: Any = None) -> Frame:
        """Send a notification; return it."""
        self.connection.send_notification(method, params)
        return self.agent.last_frame

    # The reaction of the client.

    async def expect_alive(
        self, rule: str, what: str, *sent: Frame, authority: Authority | None = None
    ) -> None:
        """Judge that the client keeps running; raise `ClientGone` if it does not.

        `authority` is given if the protocol does not demand it in this case.
        """
        alive = await self.agent.is_alive()
        got = "it disconnected" if self.connection.is_closed else "it no longer responds"
        expected = f"a client that still responds after {what}"
        self.judge(rule, alive, *sent, expected=expected, got=got, authority=authority)
        if not alive:
            raise ClientGone(got)

    async def call(self, method: str, params: Any = None, *, ident: Any = None) -> Request:
        """Send a request that does not need the user; raise `NoResponse`."""
        return await self.connection.call(method, params, ident=ident)

    async def expect_error(
        self,
        rule: str,
        call: Request,
        code: int,
        why: str,
        authority: Authority | None = None,
        code_authority: Authority | None = None,
    ) -> None:
        """Judge that a request gets this error; raise `ClientGone` if the client disconnects.

        `authority` is given if the protocol does not demand it in this case, `code_authority` if it
        demands an error but not this code.
        """
        expected = f"{code} for {why}"
        try:
            await self.connection.wait_for_response(call)
        except NoResponse as silence:
            if self.connection.is_closed:
                raise ClientGone("it disconnected") from None
            self.cancel_request(call)
            got = str(silence)
            self.judge(rule, False, call, expected=expected, got=got, authority=authority)
            return
        passed, got = call.code == code, call.outcome
        authority = authority if call.ok else authority or code_authority
        self.judge(rule, passed, call, expected=expected, got=got, authority=authority)

    async def expect_success(self, rule: str, call: Request, why: str) -> bool:
        """Judge that a request gets a result, for which the user may be needed."""
        await self.wait_for_person(call)
        self.judge(rule, call.ok, call, expected=f"a result for {why}", got=call.outcome)
        return call.ok

    async def wait_for_person(self, call: Request) -> None:
        """Wait until the user answers a request; raise `NotExercised` after the time limit."""
        await self.wait_for_user_action(lambda: call.response is not None, call)

    async def wait_for_user_action(
        self, holds: Callable[[], bool], call: Request | None = None
    ) -> None:
        """Wait until the user has done something; raise `NotExercised` after the time limit."""
        try:
            await self.connection.wait_until(holds, "response", within_s=self.user_timeout_s)
        except NoResponse:
            if self.connection.is_closed:
                raise ClientGone("it disconnected") from None
            self.user_absent = True
            if call is not None:
                self.cancel_request(call)
            raise NotExercised("the user did not react in time") from None

    def cancel_request(self, call: Request) -> None:
        """Cancel a request of the agent."""
        self.connection.send_notification("$/cancel_request", {"requestId": call.id})

    def request_permission(self, title: str, **more: Any) -> Request:
        """Send a permission request in the shape of the version."""
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

    # Files.

    async def make_folder(self) -> Path:
        """Create a folder in the session's directory for this scenario."""
        return await self._make_folder(self.session.cwd, ".accord-check-")

    async def make_outside_folder(self) -> Path:
        """Create a folder outside the session's directories; raise `NotExercised` if that fails."""
        found = await self._make_folder(None, "accord-check-")
        real = os.path.realpath(found)  # noqa: ASYNC240  # a few of them, at once
        for root in self.session.directories:
            inside = os.path.realpath(root)  # noqa: ASYNC240
            if os.path.commonpath([real, inside]) == inside:
                raise NotExercised(
                    "the session's directories contain the folder for temporary files"
                )
        return found

    async def _make_folder(self, parent: str | None, prefix: str) -> Path:
        try:
            made = await asyncio.to_thread(tempfile.mkdtemp, dir=parent, prefix=prefix)
        except OSError as error:
            raise NotExercised(f"cannot create a folder here: {error.strerror}") from None
        self._folders.append(Path(made))
        return self._folders[-1]

    async def aclose(self) -> None:
        """Complete the tool calls, and remove the folders."""
        if not self.connection.is_closed and not self.cancelled:
            for ident in self._tools:
                self.update("tool_call_update", toolCallId=ident, status="completed")
        for folder in self._folders:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


OPTIONS = (
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
)
