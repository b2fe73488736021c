"""The fixture for authors of clients: agents that replay recordings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from accord_trace.replay import ReplayedAgent


class ReplayedAgents:
    """The fixture `replayed_agent`: call it with the path of a recording.

    A relative path is looked up in the folder of the test's module, then in the current directory.
    """

    def __init__(self, test_folder: Path, folder: Path) -> None:
        self.agents: list[ReplayedAgent] = []
        self._test_folder = test_folder
        self._folder = folder

    def __call__(
        self, recording: str | os.PathLike[str], *, speed: float = 0.0, strict: bool = False
    ) -> ReplayedAgent:
        """Return an agent that replays the recording; see `ReplayedAgent` for the options."""
        path = self._test_folder / recording
        reports = self._folder / f"replayed-agent-{len(self.agents) + 1}"
        reports.mkdir()
        agent = ReplayedAgent(
            path if path.exists() else recording, speed=speed, strict=strict, folder=reports
        )
        self.agents.append(agent)
        return agent

    def finish(self, item: pytest.Item) -> None:
        """Add a section with the departures to the report of the test.

        With `strict`, raise `AssertionError` if a client has departed from a recording.
        """
        for agent in self.agents:
            text = "\n".join(agent.report().lines())
            item.add_report_section("teardown", f"replay of {agent.recording.name}", text)
        for agent in self.agents:
            if agent.strict:
                agent.assert_matched()
