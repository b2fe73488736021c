"""A real agent, claude-agent-acp, calls Python functions of its client."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

import accord
from accord.client.permissions import allow
from requirement import requirement

pytest.importorskip("mcp", reason="the library `mcp` is not installed")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

HERE = Path(__file__).parent
CLAUDE = HERE / "node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js"
ANSWER = "lane: an order of messages"


@contextmanager
def model() -> Generator[str, None, None]:
    """Run a model that calls the tool `lookup`; return its URL."""
    command = [sys.executable, str(HERE / "fake_claude.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@asynccontextmanager
async def claude(tmp_path: Path) -> AsyncGenerator[accord.ConnectedAgent, None]:
    """Connect to the agent in a new directory, with an empty home directory."""
    node = shutil.which("node")
    if node is None or not CLAUDE.exists():
        why = f"{CLAUDE} is missing: run tests/interop/install.sh real"
        if os.environ.get("ACCORD_REQUIRE_INTEROP") == "1":
            pytest.fail(why)
        pytest.skip(why)
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    with model() as url:
        env: dict[str, str | None] = dict.fromkeys(os.environ)
        env |= {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path / "home"),
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_BASE_URL": url,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "ENABLE_TOOL_SEARCH": "false",  # the model sees all tools at once
            "IS_SANDBOX": "1",
        }
        command = [node, str(CLAUDE)]
        async with accord.connect(
            command, permissions=allow("*"), cwd=tmp_path / "work", env=env
        ) as agent:
            yield agent


async def use(session: accord.ClientSession) -> None:
    async with session.prompt("What is a lane?") as turn:
        await turn.wait()
    (call,) = session.transcript.tool_calls
    assert (call.name, call.status) == ("mcp__tools__lookup", "completed")
    assert ANSWER in turn.text


@requirement("R-MOA-17")
async def test_claude_calls_a_function_over_the_http_bridge(tmp_path: Path) -> None:
    called: list[str] = []

    def lookup(term: str) -> str:
        """What the team means by a term."""
        called.append(term)
        return ANSWER

    async with claude(tmp_path) as agent:
        await use(await agent.new_session(tmp_path / "work", tools=[lookup]))
    assert called == ["lane"]


async def test_claude_calls_a_function_by_the_stdio_command(tmp_path: Path) -> None:
    from accord.mcp.servers import servers_from
    from accord.mcp.stdio_bridge import StdioBridge

    def lookup(term: str) -> str:
        """What the team means by a term."""
        return ANSWER

    async with claude(tmp_path) as agent:
        bridge = StdioBridge(servers_from([lookup]))  # although the agent supports HTTP
        try:
            servers = await bridge.start()
            await use(await agent.new_session(tmp_path / "work", mcp_servers=servers))
        finally:
            await bridge.aclose()
