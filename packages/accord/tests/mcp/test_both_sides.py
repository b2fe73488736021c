"""Accord's agent uses the tools of Accord's client, by each transport of MCP."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the library `mcp` is not installed")

from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

import accord
from accord import Agent, McpServerError, Turn, ask, connect, serve
from accord.transports.memory import pair
from client.wire_agents import BOTH
from mcp_tools import text_of
from requirement import requirement
from versions import only

TRANSPORTS = pytest.mark.parametrize("transport", ["acp", "http", "stdio"])


class ToolAgent(Agent):
    """Calls the tool that the prompt names, and says the result."""

    def __init__(self, *transports: str) -> None:
        self.mcp_transports = frozenset(transports)

    async def prompt(self, turn: Turn) -> None:
        server, _, name = turn.text.partition(".")
        tools = (await turn.session.connect_mcp())[server]
        try:
            result = await tools.call(name, {}, self.progress(turn))
        except McpServerError as error:
            await turn.say(f"error {error.code}")
            return
        await turn.say(f"{'failed: ' * bool(result.is_error)}{text_of(result)}")

    def progress(self, turn: Turn) -> Any:
        async def report(done: float, total: float | None, message: str | None) -> None:
            await turn.say(f"{done:g}/{total or 0:g} ")

        return report


@asynccontextmanager
async def connected(version: int, *transports: str) -> AsyncGenerator[accord.ConnectedAgent, None]:
    here, there = pair()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(serve(ToolAgent(*transports), transport=there))
        async with connect(here, versions=only(version)) as agent:
            yield agent


async def said(session: accord.ClientSession, prompt: str) -> str:
    async with session.prompt(prompt) as turn:
        await turn.wait()
    return turn.text


async def steps(context: Context[Any, Any]) -> str:
    for step in (1, 2):
        await context.report_progress(step, 2)
    return "done"


def plain() -> str:
    return "plain"


def broken() -> str:
    raise ValueError("a detail of this machine")


@requirement("R-MOA-01", "R-MOA-09", "R-MOA-17")
@BOTH
@TRANSPORTS
async def test_the_agent_calls_functions_and_servers_of_the_client(
    version: int, transport: str
) -> None:
    old = MCPServer("old")
    old.add_tool(plain)
    async with connected(version, transport) as agent:
        tools = [steps, broken, Client(old, mode="legacy")]
        session = await agent.new_session("/", tools=tools)
        assert await said(session, "tools.steps") == "1/2 2/2 done"
        assert await said(session, "old.plain") == "plain"
        assert await said(session, "tools.broken") == "failed: Error executing tool broken"


@BOTH
@TRANSPORTS
async def test_sessions_have_their_own_tools(version: int, transport: str) -> None:
    def first() -> str:
        return "first"

    def second() -> str:
        return "second"

    async with connected(version, transport) as agent:
        one = await agent.new_session("/", tools=[first])
        two = await agent.new_session("/", tools=[second])
        assert await said(one, "tools.first") == "first"
        assert await said(two, "tools.second") == "second"
        assert await said(two, "tools.first") != "first"
        await one.close()
        assert await said(two, "tools.second") == "second"


AGENT = """
from accord import Agent, Turn

class ToolAgent(Agent):
    mcp_transports = frozenset({"acp"})

    async def prompt(self, turn: Turn) -> None:
        tools = (await turn.session.connect_mcp())["tools"]
        result = await tools.call("greet", {"name": turn.text})
        await turn.say(result.content[0].text)

ToolAgent().run()
"""


def test_ask_gives_tools_to_an_agent_in_another_process(tmp_path: Path) -> None:
    def greet(name: str) -> str:
        return f"Hello {name}"

    (tmp_path / "agent.py").write_text(AGENT)
    answer = ask([sys.executable, str(tmp_path / "agent.py")], "Ada", tools=[greet])
    assert answer.text == "Hello Ada"


@BOTH
@TRANSPORTS
async def test_a_function_that_blocks_its_thread_does_not_block_the_end(
    version: int, transport: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("accord.mcp.provider.CLOSE_S", 0.05)
    monkeypatch.setattr("accord.mcp.bridges.DISCONNECT_S", 0.05)
    started, go = threading.Event(), threading.Event()

    def block() -> str:
        started.set()
        go.wait()
        return "done"

    try:
        async with connected(version, transport) as agent:
            session = await agent.new_session("/", tools=[block])
            async with session.prompt("tools.block") as turn:
                assert await asyncio.to_thread(started.wait, 20)
                await session.close()
                await turn.wait()
    finally:
        go.set()
    # Over ACP the request is cancelled although its thread continues.
    assert ("did not stop" in caplog.text) == (transport != "acp")
