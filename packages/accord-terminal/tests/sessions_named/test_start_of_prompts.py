"""What `accord session prompt` imports, and its exit: scripts start it again and again."""

from __future__ import annotations

import sys

import pytest

from sessions_named.machine import Machine

pytestmark = pytest.mark.slow

NOTE_MODULES = (
    "import sys; from accord.program import main\n"
    "class Garbage:\n"
    "    def __init__(self): self.me = self\n"
    "    def __del__(self): print('collected')\n"
    "garbage = Garbage()\n"
    "status = main(sys.argv[1:]); print(*sys.modules); sys.exit(status)"
)
# What it needs in any case: Python 3.14 imports dataclasses for asyncio.
NOTE_NEEDED = "import asyncio, click, msgspec, sys; print(*sys.modules)"
# Slow to import, or needed only by other commands.
UNUSED = {
    "accord.agent",
    "accord_terminal.ask.command",
    "accord_terminal.toolkit.options",
    "accord.mcp",
    "accord.v1",
    "accord_terminal.agents",
    "accord_terminal.sessions.owner",
    "dataclasses",
    "email",
    "importlib.metadata",
    "markdown_it",
    "rich",
    "secrets",
    "tomlkit",
    "tomllib",
    "zipfile",
}


def test_prompt_imports_only_what_it_uses_and_exits_at_once(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    words = ["session", "prompt", "-s", "fix", "echo Hello."]
    ended = machine.run_program([sys.executable, "-c", NOTE_MODULES, *words])
    assert ended.returncode == 0, ended.stderr
    answer, modules = ended.stdout.splitlines()  # and no garbage was collected
    assert answer == "Hello."
    needed = machine.run_program([sys.executable, "-c", NOTE_NEEDED]).stdout.split()
    assert "asyncio" in needed
    assert not (UNUSED - set(needed)) & set(modules.split())
