"""The context of a scenario for agents: its connections, its folder, its findings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

from accord.transports.base import Transport
from accord_conformance.agent.purposes import missed_purpose
from accord_conformance.agent.remote_agent import RemoteAgent
from accord_conformance.agent.scenario_client import ScenarioClient
from accord_conformance.agent.settings import Settings
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.harness.scenario import LoginRequired, NotExercised, Scenario
from accord_conformance.judges.base import Evidence, make_finding
from accord_conformance.reports.report import Report
from accord_conformance.rules.authority import Authority
from accord_conformance.rules.manifest import requirements
from accord_conformance.traffic.frame import Medium
from accord_conformance.traffic.message import Request

# Starts the agent; its output that is not a frame goes to the function.
Connect: TypeAlias = Callable[[Callable[[str], None]], Transport | Awaitable[Transport]]


_LOGIN_NEEDED = -32000


class AgentContext:
    """A running scenario; `client` is connected unless the scenario is isolated."""

    def __init__(
        self,
        scenario: Scenario[AgentContext],
        version: int,
        settings: Settings,
        folder: Path,
        *,
        report: Report,
        start: Callable[[str], Awaitable[ScenarioClient]],
        close: Callable[[str, ScenarioClient], Awaitable[None]],
        shared: ScenarioClient | None,
        remote: RemoteAgent | None = None,
    ) -> None:
        self.scenario = scenario
        self.version = version
        self.settings = settings
        self.folder = folder
        self._report = report
        self._start = start
        self._close = close
        self._shared = shared
        self._remote = remote
        self._opened: list[ScenarioClient] = []

    @property
    def client(self) -> ScenarioClient:
        """The client that scenarios share, initialized."""
        assert self._shared is not None, "an isolated scenario connects itself"
        return self._shared

    @property
    def medium(self) -> Medium:
        """What carries the messages."""
        return "stdio" if self._remote is None else self._remote.medium

    @property
    def remote(self) -> RemoteAgent:
        """The agent's address, in scenarios about the network."""
        assert self._remote is not None, "only for agents at a URL"
        return self._remote

    def wait_once(self) -> None:
        """Raise `NotExercised` if this scenario, which takes long, ran in another version."""
        if self.scenario.name in self.remote.waited:
            raise NotExercised("was exercised in the other version")
        self.remote.waited.add(self.scenario.name)

    async def connect(self) -> ScenarioClient:
        """Start another process of the agent, and send nothing yet."""
        client = await self._start(self.scenario.name)
        client.start_scenario(self.folder, self.scenario.name)
        self._opened.append(client)
        return client

    async def connect_initialized(self, **more: Any) -> ScenarioClient:
        """Start another process of the agent and initialize it, or raise `NotExercised`."""
        client = await self.connect()
        call = await client.initialize(**more)
        if not call.ok:
            raise NotExercised("the agent refused the handshake")
        return client

    def missed_purposes(self) -> str:
        """Return which turns did not lead to what their prompts are for, or an empty text."""
        clients = self._opened if self._shared is None else [self._shared, *self._opened]
        missed = [missed_purpose(client, sent) for client in clients for sent in client.turns]
        return "; ".join(dict.fromkeys(filter(None, missed)))

    async def aclose(self) -> None:
        """Stop the processes that the scenario started."""
        while self._opened:
            await self._close(self.scenario.name, self._opened.pop())

    def judge(
        self,
        rule: str,
        passed: bool,
        *seen: Evidence,
        expected: str = "",
        got: str = "",
        authority: Authority | None = None,
    ) -> None:
        """Add a finding about a rule, unless the rule is not of this version."""
        assert rule in self.scenario.rules, f"{self.scenario.name} does not name {rule}"
        if self.version not in requirements()[rule].versions:
            return
        self._report.add(
            make_finding(
                rule,
                passed,
                "agent",
                *seen,
                expected=expected,
                got=got,
                where=self.scenario.name,
                authority=authority,
            )
        )

    async def expect_response(
        self, rule: str, client: ScenarioClient, call: Request, expected: str
    ) -> bool:
        """Wait for the response to a request; a missing response breaks the rule.

        Raise `LoginRequired` if the response requires a login.
        """
        try:
            await client.connection.wait_for_response(call)
        except NoResponse as silence:
            self.judge(rule, False, call, expected=expected, got=str(silence))
            return False
        if call.code == _LOGIN_NEEDED:
            raise LoginRequired("the agent requires a login")
        return True

    async def expect_error(
        self,
        rule: str,
        client: ScenarioClient,
        call: Request,
        codes: tuple[int, ...],
        *,
        why: str,
        authority: Authority | None = None,
        code_authority: Authority | None = None,
    ) -> None:
        """Judge that a request gets an error, with one of these codes if any are given.

        `authority` is given if the protocol does not demand it in this case, `code_authority` if it
        demands an error but none of these codes.
        """
        named = " or ".join(str(code) for code in codes) or "an error"
        expected = f"{named} for {why}"
        if await self.expect_response(rule, client, call, expected):
            passed = not call.ok and (not codes or call.code in codes)
            got = describe_outcome(call)
            authority = authority if call.ok else authority or code_authority
            self.judge(rule, passed, call, expected=expected, got=got, authority=authority)

    async def expect_success(
        self,
        rule: str,
        client: ScenarioClient,
        call: Request,
        *,
        why: str,
        authority: Authority | None = None,
    ) -> bool:
        """Judge that a request gets a result; return whether it did."""
        expected = f"a result for {why}"
        if not await self.expect_response(rule, client, call, expected):
            return False
        got = describe_outcome(call)
        self.judge(rule, call.ok, call, expected=expected, got=got, authority=authority)
        return call.ok


def describe_outcome(call: Request) -> str:
    """Describe how a request was answered."""
    if call.response is None:
        return "no response"
    return "a result" if call.ok else f"error {call.code}"
