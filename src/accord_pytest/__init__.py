"""The plugin for pytest: its options and fixtures, and nothing of Accord until one is used."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from accord_conformance.pytest_plugin.agent import AgentUnderTest
    from accord_conformance.pytest_plugin.client import ClientUnderTest

__all__ = ("accord_agent", "accord_client")

_MARKERS = (
    "accord_agent(*command, judge=True): what starts the agent of the fixture `accord_agent`; with "
    "`judge=False` broken rules do not fail the test",
    "accord_check: the rules that --accord-check adds",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what starts the agent, and what is checked."""
    group = parser.getgroup("accord", "Agent Client Protocol")
    command = "what starts the agent of the fixture accord_agent"
    group.addoption("--accord-agent", metavar="COMMAND", help=f"{command}.")
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
        help="Check one version alone; otherwise those that the agent speaks.",
    )
    group.addoption(
        "--accord-check-config",
        metavar="FILE",
        type=Path,
        help="Settings, as `accord check init` writes them; else accord-check.toml, if there.",
    )
    group.addoption(
        "--accord-check-baseline",
        metavar="FILE",
        type=Path,
        help="Rules that are known to be broken.",
    )
    group.addoption(
        "--accord-check-strict", action="store_true", help="Fail for broken SHOULDs, too."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)


@pytest.hookimpl(tryfirst=True)  # so that -k and -m choose among the rules, too
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add the rules, behind all else."""
    command: str | None = config.getoption("accord_check")
    if command is not None:
        from accord_conformance.pytest_plugin.rule_tests import collect

        items.extend(collect(session, command))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Show what the check came to."""
    if config.getoption("accord_check") is not None:
        from accord_conformance.pytest_plugin.rule_tests import summary

        if lines := summary(config):
            terminalreporter.section("accord check")
            for line in lines:
                terminalreporter.line(line)


@pytest.fixture
def accord_agent(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Generator[AgentUnderTest, None, None]:
    """The agent under test: `connect` to it, `ask` it, or `run` a function with it.

    Whatever it says is judged; a test in which it breaks a rule fails.
    """
    from accord_conformance.pytest_plugin.agent import AgentUnderTest, agent_command

    command, judged = agent_command(request)
    agent = AgentUnderTest(command, folder=tmp_path)
    yield agent
    if judged:
        agent.check()


@pytest.fixture
def accord_client(tmp_path: Path) -> ClientUnderTest:
    """The counterpart of a client under test: an agent to start, and what it found."""
    from accord_conformance.pytest_plugin.client import ClientUnderTest

    return ClientUnderTest(tmp_path / "accord-client.json")
