"""The fixture for authors of agents: connections whose traffic is judged."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, Unpack

import pytest

from accord.client.ask import AskResult, ask
from accord.client.connect import ConnectedAgent, ConnectOptions, connect
from accord.client.permissions import Policy
from accord.transports.command_line import argv_of
from accord.types.content import ContentBlock
from accord_conformance.judges.observer import Observer
from accord_conformance.pytest_plugin.failures import RuleFailed, describe_failures
from accord_conformance.reports.report import Report
from accord_conformance.traffic.frame import Side

T = TypeVar("T")

TURN_S = 60.0


class AgentOptions(ConnectOptions, total=False):
    """The keyword arguments of `accord.connect`, which documents them."""

    permissions: Policy | Sequence[Policy] | None
    cwd: str | os.PathLike[str]


class AgentUnderTest:
    """The fixture `accord_agent`: each connection starts a process of the agent.

    `folder` is empty at first; sessions of `ask` work in it. `reports` has the report of each
    closed connection.
    """

    def __init__(self, command: Sequence[str], *, folder: Path) -> None:
        self.command: tuple[str, ...] = tuple(command)
        self.folder = folder
        self.reports: list[Report] = []

    @asynccontextmanager
    async def connect(
        self, **options: Unpack[AgentOptions]
    ) -> AsyncGenerator[ConnectedAgent, None]:
        """Start the agent, and stop it at the end; `options` and errors are those of `connect`."""
        watched = _ObservedTransport(options)
        try:
            async with connect(self.command, **watched.options) as agent:
                yield agent
        finally:
            self.reports.append(watched.finish())

    def ask(
        self,
        prompt: ContentBlock | Sequence[ContentBlock],
        *,
        timeout_s: float = TURN_S,
        **options: Unpack[AgentOptions],
    ) -> AskResult:
        """Start the agent, run one turn in `folder`, and stop it; for tests without a loop."""
        watched = _ObservedTransport(options)
        given: AgentOptions = {"cwd": self.folder, **watched.options}
        try:
            return ask(self.command, prompt, timeout_s=timeout_s, **given)
        finally:
            self.reports.append(watched.finish())

    def run(
        self,
        function: Callable[[ConnectedAgent], Awaitable[T]],
        *,
        timeout_s: float = TURN_S,
        **options: Unpack[AgentOptions],
    ) -> T:
        """Run a coroutine function with the connected agent; for tests without an event loop.

        Raise `TimeoutError` if that takes too long.
        """

        async def main() -> T:
            async with asyncio.timeout(timeout_s), self.connect(**options) as agent:
                return await function(agent)

        return asyncio.run(main())

    def check(self, *, strict: bool = False) -> None:
        """Raise `RuleFailed` if the agent broke a MUST rule so far, with `strict` any rule."""
        if faults := [fault for report in self.reports for fault in report.kit_errors]:
            raise RuntimeError("\n".join(("Error in the conformance kit:", *faults)))
        texts = [
            f"protocol version {report.version or 'not agreed'}\n"
            f"{describe_failures(report, broken)}"
            for report in self.reports
            if (broken := report.failed_rules(strict=strict))
        ]
        if texts:
            raise RuleFailed("The agent failed rules of the protocol:\n" + "\n\n".join(texts))


class _ObservedTransport:
    """Options for a connection, with an observer that judges the agent."""

    def __init__(self, options: AgentOptions) -> None:
        self._observer = Observer(only="agent")
        self._began = time.monotonic()
        self._on_stdout_noise = options.get("on_stdout_noise")
        observers = (*options.get("observers", ()), self._frame)
        self.options: AgentOptions = {
            **options,
            "observers": observers,
            "on_stdout_noise": self._noise,
        }

    def finish(self) -> Report:
        """Return the report."""
        self._observer.end("client")
        return self._observer.finish()

    def _frame(self, direction: str, frame: bytes | bytearray) -> None:
        sender: Side = "client" if direction == "sent" else "agent"
        self._observer.receive(sender, bytes(frame), time.monotonic() - self._began)

    def _noise(self, text: str) -> None:
        self._observer.receive("agent", text.encode(), time.monotonic() - self._began)
        if self._on_stdout_noise is not None:
            self._on_stdout_noise(text)


def agent_command(request: pytest.FixtureRequest) -> tuple[list[str], bool]:
    """Return the command of the agent of a test, and whether it is judged; fail without one."""
    node: pytest.Item = request.node
    marker = node.get_closest_marker("accord_agent")
    judged = bool(marker.kwargs.get("judge", True)) if marker else True
    if marker is not None and marker.args:
        return [os.fspath(word) for word in argv_of(*_words(marker.args))], judged
    command = request.config.getoption("accord_agent") or request.config.getini("accord_agent")
    if not command:
        pytest.fail(
            "Missing the agent's command: --accord-agent COMMAND, `accord_agent` in the config of "
            "pytest, or @pytest.mark.accord_agent(*words)",
            pytrace=False,
        )
    return list(argv_of(command)), judged


def _words(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """One text is a command line; several texts are its arguments."""
    return given if len(given) == 1 else (list(given),)
