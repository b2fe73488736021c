"""What would be run is said before an agent is installed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from accord_terminal.agents.installation import install_steps
from accord_terminal.agents.registry import read_index
from registry.server import entry


@pytest.mark.parametrize(
    ("kind", "package", "steps"),
    [
        (
            "npx",
            {"package": "@scope/agent@1.0.0", "args": ["--acp"], "env": {"A": "1"}},
            ["npm install @scope/agent@1.0.0", "agent --acp", "A=1"],
        ),
        ("uvx", {"package": "agent[acp]==1.0"}, ["uv tool install 'agent[acp]==1.0'", "agent"]),
        ("uvx", {"package": "agent@1.0", "cmd": "run"}, ["uv tool install agent@1.0", "run"]),
    ],
    ids=["npm", "extra", "cmd"],
)
def test_steps_of_an_installation_say_what_is_run(
    kind: Any, package: dict[str, Any], steps: list[str]
) -> None:
    index = json.dumps({"agents": [entry("agent", "1.0.0", **{kind: package})]}).encode()
    found = read_index(index).agents["agent"]
    shown = dict(install_steps(found, kind))
    assert [shown[name] for name in ("Run", "Start", "Variable") if name in shown] == steps
