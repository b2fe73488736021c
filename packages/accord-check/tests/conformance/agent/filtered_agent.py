"""A conforming agent behind a filter that changes messages, so that it violates one rule."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from accord import roles
from accord.agent.agent import AgentConnection, serve
from accord.agent.v1_role import AgentRoleV1
from accord.script_agent.agent import ScriptAgent
from accord.transports.base import Frame, Receiver, Transport
from accord.transports.memory import pair
from accord_conformance.agent.run import AgentRun
from accord_conformance.agent.scenarios import agent_scenarios
from accord_conformance.agent.settings import Settings, read_settings
from accord_conformance.nes.__main__ import NextEditsScriptAgent
from accord_conformance.reports.report import RunResult
from project import ROOT

Json: TypeAlias = dict[str, Any]

EXAMPLES = ROOT / "examples/check"
PROMPTS = read_settings(EXAMPLES / "script.toml").prompts


class StableProvidersAgent(NextEditsScriptAgent):
    """The script agent, with providers that the conformance kit cannot change."""

    async def set_provider(
        self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str]
    ) -> None:
        raise AssertionError("the kit changes nothing")

    async def disable_provider(self, provider_id: str) -> None:
        raise AssertionError("the kit changes nothing")


class MessageFilter:
    """Forwards all messages; doubles override what they change."""

    rule = ""
    also: frozenset[str] = frozenset()  # the rules that fail as a consequence
    versions: tuple[int, ...] = (1, 2)
    seconds = 5.0  # shorter where the conformance kit waits in vain
    only_version_1 = False

    def __init__(self, way: FilteredTransport) -> None:
        self.way = way
        self.calls: dict[Any, Json] = {}  # messages of the client
        self.asked: dict[Any, Json] = {}  # messages of the agent
        self.sent: list[Json] = []  # requests of the client

    def raw(self, frame: bytes) -> bool:
        """Return whether to forward a frame that is not an object."""
        return True

    def up(self, message: Json) -> Json | None:
        """Filter a message of the client."""
        return message

    def down(self, message: Json) -> Json | None:
        """Filter a message of the agent."""
        return message

    # Methods for doubles.

    def tell(self, message: Json) -> None:
        """Send a notification to the client."""
        self.way.deliver({"jsonrpc": "2.0", **message})

    def forward(self, message: Json) -> None:
        """Send a message to the agent."""
        self.way.inner.write([json.dumps({"jsonrpc": "2.0", **message}).encode()])

    def answer(self, call: Json, result: Any) -> None:
        """Send a response instead of the agent's."""
        self.tell({"id": call["id"], "result": result})

    def refuse(self, call: Json, code: int) -> None:
        """Send an error instead of the agent's response."""
        self.tell({"id": call["id"], "error": {"code": code, "message": "No"}})

    def update(self, session: str, **update: Any) -> None:
        """Send a session update as the agent."""
        params = {"sessionId": session, "update": update}
        self.tell({"method": "session/update", "params": params})

    def leave(self) -> None:
        """End the connection as the agent."""
        self.way.eof_received(None)

    def grumble(self) -> None:
        """Respond to a notification."""
        self.tell({"id": None, "error": {"code": -32600, "message": "No"}})


class FilteredTransport(Transport):
    """The conformance kit's end of a connection to an agent in this process."""

    def __init__(
        self, make: Callable[[FilteredTransport], MessageFilter], agent: ScriptAgent
    ) -> None:
        self.inner, self._theirs = pair()
        self._agent = agent
        self._bend = make(self)
        self._receiver: Receiver | None = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        await self.inner.start(self)
        self._serving = asyncio.ensure_future(self._serve())

    async def _serve(self) -> None:
        if not self._bend.only_version_1:
            await serve(self._agent, self._theirs)
            return
        connection = AgentConnection(self._agent, max_sessions=1000)
        role = roles.LazyRole(1, lambda: AgentRoleV1(connection))
        await roles.serve(self._theirs, role)
        await connection.aclose()

    def write(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            message = _object(frame)
            if message is None:
                if self._bend.raw(bytes(frame)):
                    self.inner.write([frame])
                continue
            self._bend.sent.append(message)
            if "method" in message and "id" in message:
                self._bend.calls[repr(message["id"])] = message
            changed = self._bend.up(dict(message))
            if changed == message:
                self.inner.write([frame])
            elif changed is not None:
                self.inner.write([json.dumps(changed).encode()])

    @property
    def congested(self) -> bool:
        return self.inner.congested

    def pause_reading(self) -> None:
        self.inner.pause_reading()

    def resume_reading(self) -> None:
        self.inner.resume_reading()

    async def aclose(self) -> None:
        await self.inner.aclose()
        if self._serving is not None:
            async with asyncio.timeout(10):
                await self._serving

    def deliver(self, message: Json) -> None:
        assert self._receiver is not None
        receiver = self._receiver
        frame = json.dumps(message).encode()
        # Never called from within a call of the transport.
        asyncio.get_running_loop().call_soon(receiver.frames_received, [frame])

    # Callbacks of the inner transport.

    def frames_received(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            message = _object(frame)
            assert message is not None
            if "method" in message and "id" in message:
                self._bend.asked[repr(message["id"])] = message
            changed = self._bend.down(message)
            if changed is not None:
                self.deliver(changed)

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        raise AssertionError(limit)

    def eof_received(self, error: Exception | None) -> None:
        assert self._receiver is not None
        receiver = self._receiver
        asyncio.get_running_loop().call_soon(receiver.eof_received, error)

    def writable(self) -> None:
        return


def _object(frame: Frame) -> Json | None:
    try:
        value = json.loads(frame)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


async def check(
    make: type[MessageFilter] = MessageFilter,
    versions: Sequence[int] = (1, 2),
    rule: str | None = None,
) -> RunResult:
    """Run all scenarios, or those for a rule, with a filtered agent."""
    chosen = [one for one in agent_scenarios() if rule is None or rule in one.rules]
    # Waits that end in vain are short.
    settings = Settings(
        timeout=make.seconds, answer=make.seconds, login="script", prompts=dict(PROMPTS)
    )

    def connect(noise: Callable[[str], None]) -> FilteredTransport:
        return FilteredTransport(make, StableProvidersAgent())

    return await AgentRun(connect, chosen, settings, subject="bent").run(versions)


def broken(result: RunResult) -> dict[str, list[str]]:
    """Return all failed rules, SHOULD rules included, with their messages."""
    found: dict[str, list[str]] = {}
    for report in result.reports:
        for finding in report.failures():
            reported = f"v{report.version} {finding.where}: {finding.expected} | {finding.got}"
            found.setdefault(finding.rule, []).append(reported)
    return found
