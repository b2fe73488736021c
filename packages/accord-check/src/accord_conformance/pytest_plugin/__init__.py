"""The pytest plugin: fixtures for agents and clients under test, and a test for each rule.

`pytest_entry`, which pytest loads at its start, imports this package when it is first used.
"""

from __future__ import annotations

from accord_conformance.pytest_plugin.agent import AgentOptions, AgentUnderTest, agent_command
from accord_conformance.pytest_plugin.client import ClientUnderTest
from accord_conformance.pytest_plugin.replay import ReplayedAgents
from accord_conformance.pytest_plugin.rule_tests import collect, summary

__all__ = (
    "AgentOptions",
    "AgentUnderTest",
    "ClientUnderTest",
    "ReplayedAgents",
    "agent_command",
    "collect",
    "summary",
)
