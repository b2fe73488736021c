"""Circuit breakers: an agent or a node on which nothing starts does not burn all tasks."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import Literal, Protocol

import msgspec

from accord_fleet.run import OnWait
from accord_fleet.types import AgentSpec, AttemptFailed, Result

# Failures before the agent has done anything for the task.
_START_FAILURES = frozenset({"start", "session", "sandbox", "engine"})


class BreakerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When an agent is held back."""

    failures: int = 5
    """Starts that fail in a row, after which the agent is held back."""
    first_pause_s: float = 5.0
    """Before the first probe; each further pause is three times as long."""
    longest_pause_s: float = 300.0
    probes: int = 4
    """After so many probes that fail, the remaining attempts fail without being started."""


def is_start_failure(result: Result) -> bool:
    """Return whether an attempt failed before its agent had a session."""
    failure = result.failure
    return result.status == "failed" and failure is not None and failure.where in _START_FAILURES


class Breaker(Protocol):
    """Holds back the attempts of an agent that fails repeatedly."""

    async def before(self, agent: AgentSpec) -> None:
        """Wait until an attempt may start; raise `AttemptFailed` if it must not."""
        ...

    def after(self, agent: AgentSpec, result: Result) -> None:
        """Count a result."""
        ...


class AgentBreaker:
    """The breakers of all agents of a run."""

    def __init__(
        self, settings: BreakerSettings | None = None, *, on_wait: OnWait | None = None
    ) -> None:
        """`on_wait` is called with the name of an agent that is held back, and the reason."""
        self._settings = settings or BreakerSettings()
        self._on_wait = on_wait
        self._agents: dict[str, _Circuit] = {}

    async def before(self, agent: AgentSpec) -> None:
        """Wait until an attempt may start; raise `AttemptFailed` if it must not.

        Each call that returns is followed by one of `after`, also if the attempt is cancelled.
        """
        await self._circuit(agent).before()

    def after(self, agent: AgentSpec, result: Result) -> None:
        """Count the result of an attempt."""
        circuit = self._circuit(agent)
        if is_start_failure(result):
            circuit.failed(result.failure.message if result.failure else "")
        elif result.status in ("cancelled", "lost"):  # that says nothing about the agent
            circuit.released()
        else:
            circuit.succeeded()

    def state(self, agent: str) -> Literal["closed", "open", "given up"]:
        """Return whether attempts of an agent start, wait, or fail at once."""
        circuit = self._agents.get(agent)
        return "closed" if circuit is None else circuit.state

    def _circuit(self, agent: AgentSpec) -> _Circuit:
        if (circuit := self._agents.get(agent.name)) is None:
            circuit = self._agents[agent.name] = _Circuit(agent.name, self._settings, self._on_wait)
        return circuit


class NoBreaker:
    """Holds nothing back: the breaker is in another process."""

    async def before(self, agent: AgentSpec) -> None:
        """Return at once."""

    def after(self, agent: AgentSpec, result: Result) -> None:
        """Count nothing."""


class NodeBreaker:
    """Holds back the nodes of a cluster on which one start after another fails.

    New slots are opened on other nodes. After a pause a node is used again; if the next start
    fails as well, the following pause is three times as long. If all nodes would be held back, none
    is: then the agent is the cause, and `AgentBreaker` holds it back.
    """

    def __init__(
        self,
        settings: BreakerSettings | None = None,
        *,
        on_wait: OnWait | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_wait` is called with the machine of a node that is held back, and the reason."""
        self._settings = settings or BreakerSettings(failures=3, first_pause_s=60.0)
        self._on_wait = on_wait
        self._clock = clock
        self._nodes: dict[str, _Node] = {}
        self._alive: frozenset[str] = frozenset()

    def update(self, alive: Collection[str]) -> None:
        """Use these nodes from now on."""
        self._alive = frozenset(alive)

    def held(self) -> frozenset[str]:
        """Return the nodes on which no slot must be opened now."""
        now = self._clock()
        held: set[str] = set()
        for name, node in self._nodes.items():
            if node.held_until > now and name in self._alive:
                held.add(name)
            elif node.is_held:
                node.is_held = False
                self._say(node.machine, None)
        return frozenset(held) if held < self._alive else frozenset()

    def avoided(self, node: str) -> frozenset[str]:
        """Return the nodes to avoid for a slot that was of no use on a node; one is always left."""
        for nodes in (self.held() | {node}, frozenset({node})):
            if nodes & self._alive < self._alive:
                return nodes & self._alive
        return frozenset()

    def others(self, node: str, failed_on: Collection[str]) -> bool:
        """Return whether an attempt can start on a node that is neither this nor one of those."""
        return bool(self._alive - {node} - set(failed_on))

    def succeeded(self, name: str) -> None:
        """Count an agent that has started on a node."""
        node = self._nodes.pop(name, None)
        if node is not None and node.is_held:
            self._say(node.machine, None)

    def failed(self, name: str, machine: str, reason: str) -> None:
        """Count an agent that has not started on a node."""
        node = self._nodes.setdefault(name, _Node(machine))
        node.in_a_row += 1
        now = self._clock()
        if node.in_a_row < self._settings.failures or node.held_until > now:
            return
        pause_s = min(self._settings.first_pause_s * 3**node.pauses, self._settings.longest_pause_s)
        node.pauses += 1
        node.held_until = now + pause_s
        node.is_held = True
        self._say(
            machine,
            f"not used for {pause_s:g} s: {node.in_a_row} starts in a row have failed there;"
            f" the last reason: {reason}",
        )

    def _say(self, machine: str, why: str | None) -> None:
        if self._on_wait is not None:
            self._on_wait(f"node {machine}", why)


class _Node:
    def __init__(self, machine: str) -> None:
        self.machine = machine
        self.in_a_row = 0
        self.pauses = 0
        self.held_until = float("-inf")
        self.is_held = False


class _Circuit:
    def __init__(self, agent: str, settings: BreakerSettings, on_wait: OnWait | None) -> None:
        self.state: Literal["closed", "open", "given up"] = "closed"
        self._agent = agent
        self._on_wait = on_wait
        self._settings = settings
        self._in_a_row = 0
        self._probes_failed = 0
        self._reason = ""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._is_probing = False

    async def before(self) -> None:
        if self.state == "open":
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            if self._timer is None and not self._is_probing:
                self._pause()
            try:
                await future
            except asyncio.CancelledError:
                if future.done() and not future.cancelled():
                    self.released()  # it was the probe
                raise
        if self.state == "given up":
            raise AttemptFailed("start", self._given_up())

    def succeeded(self) -> None:
        """Close the circuit: the agent works."""
        self._in_a_row = self._probes_failed = 0
        self._is_probing = False
        if self.state == "open":
            self.state = "closed"
            self._say(None)
            self._wake_all()

    def failed(self, reason: str) -> None:
        """Count a failure; the circuit is opened, or held open by a failed probe."""
        self._reason = reason
        self._in_a_row += 1
        if self.state == "closed" and self._in_a_row >= self._settings.failures:
            self.state = "open"
            self._pause()
        elif self.state == "open" and self._is_probing:
            self._is_probing = False
            self._probes_failed += 1
            if self._probes_failed >= self._settings.probes:
                self.state = "given up"
                self._say(None)
                self._wake_all()
            else:
                self._pause()

    def released(self) -> None:
        """Let another attempt be the probe: this one was cancelled."""
        if self._is_probing:
            self._is_probing = False
            self._probe()

    def _pause(self) -> None:
        settings = self._settings
        pause_s = min(settings.first_pause_s * 3**self._probes_failed, settings.longest_pause_s)
        self._timer = asyncio.get_running_loop().call_later(pause_s, self._probe)
        self._say(
            f"waiting {pause_s:g} s: {self._in_a_row} starts in a row have failed;"
            f" the last reason: {self._reason}"
        )

    def _say(self, why: str | None) -> None:
        if self._on_wait is not None:
            self._on_wait(self._agent, why)

    def _probe(self) -> None:
        """Let one waiting attempt start."""
        self._timer = None
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                self._is_probing = True
                future.set_result(None)
                return

    def _wake_all(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)

    def _given_up(self) -> str:
        return (
            f"{self._agent} was not started: {self._in_a_row} starts in a row have failed,"
            f" {self._probes_failed} of them after a pause. The last reason: {self._reason}"
        )
