"""The plugin for pytest: its options and fixtures. It imports Accord when one of them is used."""

from __future__ import annotations

import importlib
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from accord_conformance.pytest_plugin import (
        AgentUnderTest,
        ClientUnderTest,
        ReplayedAgents,
    )


_MARKERS = (
    "accord_agent(*command, judge=True): the command that starts the agent of the fixture "
    "`accord_agent`; with `judge=False` failed rules do not fail the test",
    "accord_check: the tests that --accord-check adds",
)


def _plugin() -> Any:
    """Return the package of the fixtures; most runs of pytest do not need it."""
    return importlib.import_module("accord_conformance.pytest_plugin")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("accord", "Agent Client Protocol")
    command = "command that starts the agent of the fixture accord_agent"
    group.addoption("--accord-agent", metavar="COMMAND", help=f"The {command}.")
    parser.addini("accord_agent", f"{command} (--accord-agent)", default="")
    group.addoption(
        "--accord-check",
        metavar="COMMAND",
        help="Start this agent, and add a test for each rule of the protocol.",
    )
    group.addoption(
        "--accord-check-version",
        choices=["1", "2", "both"],
        default="both",
        help="Protocol versions to test (default: both).",
    )
    group.addoption(
        "--accord-check-config",
        metavar="FILE",
        type=Path,
        help="Settings file (default: accord-check.toml, if present).",
    )
    group.addoption(
        "--accord-check-baseline",
        metavar="FILE",
        type=Path,
        help="Ignore failures listed in this file.",
    )
    group.addoption("--accord-check-strict", action="store_true", help="Fail on SHOULD rules too.")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)


@pytest.hookimpl(tryfirst=True)  # so that -k and -m select rules too
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add the tests of the rules after all other tests."""
    command: str | None = config.getoption("accord_check")
    if command is not None:
        items.extend(_plugin().collect(session, command))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Show the result of the check."""
    if config.getoption("accord_check") is not None:
        lines: list[str] = _plugin().summary(config)
        if lines:
            terminalreporter.section("accord check")
            for line in lines:
                terminalreporter.line(line)


@pytest.fixture
def accord_agent(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Generator[AgentUnderTest, None, None]:
    """The agent under test: `connect` to it, `ask` it, or `run` a function with it.

    All its messages are judged: the test fails if the agent breaks a rule.
    """
    command, judged = _plugin().agent_command(request)
    agent: AgentUnderTest = _plugin().AgentUnderTest(command, folder=tmp_path)
    yield agent
    if judged:
        agent.check()


@pytest.fixture
def accord_client(tmp_path: Path) -> ClientUnderTest:
    """The agent that a client under test starts, and the rules that it found broken."""
    return _plugin().ClientUnderTest(tmp_path / "accord-client.json")


@pytest.fixture
def replayed_agent(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Generator[ReplayedAgents, None, None]:
    """Agents that replay recordings: `agent = replayed_agent("r.acp.jsonl")`.

    Pass the agent to `accord.connect`, or start `agent.command` from any client. At the end,
    `agent.assert_matched()` raises an error that shows where the client has departed.
    """
    agents: ReplayedAgents = _plugin().ReplayedAgents(request.path.parent, tmp_path)
    yield agents
    agents.finish(request.node)
