"""Real agents call Python functions of their client.

claude-agent-acp uses MCP of revision 2026-07-28, Qwen Code a handshake of revision 2025-11-25.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

import accord
from accord.client.permissions import allow
from recordings.agents import QWEN_SETTINGS
from requirement import requirement

pytest.importorskip("mcp", reason="the library `mcp` is not installed")

from accord.mcp.bridges import StdioBridge
from accord.mcp.servers import servers_from

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

MODULES = Path(__file__).parent / "node_modules"
PROGRAMS = {
    "claude": (MODULES / "@agentclientprotocol/claude-agent-acp/dist/index.js",),
    "qwen": (MODULES / ".bin/qwen", "--acp", "--auth-type", "openai"),
}
SETTINGS = {
    "claude": {
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": "{}",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ENABLE_TOOL_SEARCH": "false",  # the model gets all tools
        "IS_SANDBOX": "1",
    },
    "qwen": {
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": "{}/v1",
        "OPENAI_MODEL": "fake",
        # Else it waits 5 s for a server, too short on a busy machine, and does not try again.
        "QWEN_CODE_LEGACY_MCP_BLOCKING": "1",
    },
}
CONNECT_S = 60.0  # for an agent to connect to the server, in one session after another
ANSWER = "lane: an order of messages"


@contextmanager
def model(*call: str) -> Generator[str, None, None]:
    """Run a model that calls the tool `lookup`, or that of `call`; return its URL."""
    command = [sys.executable, str(Path(__file__).with_name("fake_claude.py")), *call]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def leave_out(program: object) -> NoReturn:
    """Skip the test, or let it fail where all programs are required."""
    why = f"{program} is missing: run tests/interop/install.sh real"
    if os.environ.get("ACCORD_REQUIRE_INTEROP") == "1":
        pytest.fail(why)
    pytest.skip(why)


def command_of(name: str) -> list[str]:
    node, (program, *options) = shutil.which("node"), PROGRAMS[name]
    if node is None or not Path(program).exists():
        leave_out(program)
    return [node, *map(str, (program, *options))]


@asynccontextmanager
async def started(
    name: str, tmp_path: Path, *call: str, **options: Any
) -> AsyncGenerator[accord.ConnectedAgent, None]:
    """Start an agent in a new directory, with a home directory of its own.

    Its model calls the tool `lookup`, or that of `call`.
    """
    command = command_of(name)
    (tmp_path / "work").mkdir()
    (tmp_path / "home/.qwen").mkdir(parents=True)
    (tmp_path / "home/.qwen/settings.json").write_text(json.dumps(QWEN_SETTINGS))
    with model(*call) as url:
        env: dict[str, str | None] = dict.fromkeys(os.environ)
        env |= {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
        env |= {key: value.format(url) for key, value in SETTINGS[name].items()}
        async with accord.connect(
            command, permissions=allow("*"), cwd=tmp_path / "work", env=env, **options
        ) as agent:
            yield agent


@requirement("R-MOA-17")
@pytest.mark.parametrize(
    ("name", "bridge"), [("claude", "http"), ("claude", "stdio"), ("qwen", "http")]
)
async def test_agent_calls_a_function_of_its_client(name: str, bridge: str, tmp_path: Path) -> None:
    called: list[str] = []

    def lookup(term: str) -> str:
        """Return what the team means by a term."""
        called.append(term)
        return ANSWER

    async with started(name, tmp_path) as agent:
        stdio = StdioBridge(servers_from([lookup]))
        try:
            offered: dict[str, Any] = {"tools": [lookup]}
            if bridge == "stdio":  # although the agent supports HTTP
                offered = {"mcp_servers": await stdio.start()}
            text = ""
            end = time.monotonic() + CONNECT_S
            while not called and time.monotonic() < end:
                # Without the server's tools in its first turn, a session has them in none.
                session = await agent.new_session(tmp_path / "work", **offered)
                async with session.prompt("What is a lane?") as turn:
                    await turn.wait()
                text = turn.text
        finally:
            await stdio.aclose()
    assert called == ["lane"]
    assert ANSWER in text
