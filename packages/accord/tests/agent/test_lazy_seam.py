"""Modules that only sessions need are imported with the first session, to keep start-up fast."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, sys
from accord import Agent, Session, Turn, roles, serve, v1, v2
from accord.transports.memory import pair


class Mine(Agent):
    async def prompt(self, turn: Turn) -> None: ...


async def main() -> None:
    here, there = pair()
    serving = asyncio.ensure_future(serve(Mine(), here))
    info = v2.Implementation(name="test", version="0")
    client = v1.ClientRole() if {version} == 1 else v2.ClientRole()
    if {version} == 2:
        client.info = info
    async with roles.connect(there, client) as agent:
        print(*sorted(name for name in sys.modules if name.startswith("accord.agent")))
        await agent.new_session({version_name}.NewSessionRequest(cwd="/", mcp_servers=[]))
        print(*sorted(name for name in sys.modules if name.startswith("accord.agent")))
    await serving

asyncio.run(main())
"""

# Modules of the agent package that `initialize` does not need.
LATER = {
    "accord.agent.client_adapter",
    "accord.agent.files_and_terminals",
    "accord.agent.handlers",
    "accord.agent.session_core",
    "accord.agent.session_manager",
    "accord.agent.subagent",
    "accord.agent.toolbox",
}


@pytest.mark.parametrize("version", [1, 2])
def test_initialize_imports_nothing_that_only_sessions_need(version: int) -> None:
    program = PROGRAM.replace("{version_name}", f"v{version}").replace("{version}", str(version))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    initialized, opened = (set(line.split()) for line in done.stdout.splitlines())
    assert not initialized & LATER
    assert opened >= LATER
    other = 3 - version
    assert not [name for name in opened if name.startswith(f"accord.agent.v{other}")]
