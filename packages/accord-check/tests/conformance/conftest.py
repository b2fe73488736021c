"""Programs start by forks of the test's process, which has imported what they import."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from importlib import import_module

import pytest

import forked
from accord_conformance.rules.manifest import requirements

# What the kit's own programs import when they run.
_IMPORTED = (
    "accord.program",
    "accord.script_agent.agent",
    "accord.script_agent.commands",
    "accord_conformance.cli.check_agent",
    "accord_conformance.cli.check_chain",
    "accord_conformance.cli.check_client",
    "accord_terminal.ask.run",
    "accord_terminal.click_group",
)


@pytest.fixture(autouse=True, scope="module")
def forks() -> Iterator[None]:
    """Start Python programs by forks of this process: the kit is large, and loads all rules."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forked, "inherits_patches", True)
        patch.setattr(subprocess, "Popen", forked._ForkedPopen)
        for name in _IMPORTED:
            import_module(name)
        requirements()
        yield
