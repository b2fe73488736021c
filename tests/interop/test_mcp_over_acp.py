"""MCP over ACP between the TypeScript SDK and Accord, in both directions."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import accord
from interop.test_proxies import ACCORD, PASS, chain
from interop.turns import HERE, PEERS, require, run
from requirement import requirement

pytest.importorskip("mcp", reason="the library `mcp` is not installed")

pytestmark = pytest.mark.slow

PATHS = pytest.mark.parametrize(
    ("version", "chained"),
    [(1, False), (2, False), (1, True)],
    ids=["v1", "v2", "v1 through a proxy"],
)


@requirement("R-MOA-09", "R-MOA-10", "R-MOA-11", "R-MOA-12")
@requirement("R-MOA-13", "R-MOA-14")
@PATHS
def test_agent_uses_a_server_of_the_typescript_sdk(version: int, chained: bool, tmp_path: Path):
    provider = replace(
        PEERS[1]["typescript"],
        client="peers/ts_mcp_provider.mjs",
        client_options=(str(version),),
    )
    agent = replace(PEERS[1]["accord"], agent="accord_mcp_agent.py")
    command = chain([*ACCORD, "chain"], PASS, agent.start_agent()) if chained else ()
    report = run(provider, agent, tmp_path, command)
    first, gone = report.pop("said")
    assert first == {
        "tools": ["count", "fail", "break", "wait"],
        "text": "counted to 3",
        "progress": [[1, 3], [2, 3], [3, 3]],
        "fail": ["server", -33001],
        "break": ["McpBackendFailed", -33002],
        "limit": ["McpLimitExceeded", -33000],
        "logged": ["the MCP server tools: counted"],
    }
    assert gone == {"gone": ["McpServerUnavailable", -33001]}
    assert report == {
        "stops": ["end_turn", "end_turn"],
        "methods": ["server/discover", "tools/list", *5 * ["tools/call"]],
        "info": "McpAgent",
        "levels": ["info"],
        "aborted": 2,
    }


@requirement("R-MOA-06", "R-MOA-07", "R-MOA-10", "R-MOA-11")
@requirement("R-MOA-12", "R-MOA-13", "R-MOA-14")
@PATHS
async def test_caller_of_the_typescript_sdk_uses_functions_of_our_client(
    version: int, chained: bool, tmp_path: Path
):
    from mcp import MCPError
    from mcp.server.mcpserver import Context

    stopped = 0
    arrived = asyncio.Event()

    async def lookup(term: str, context: Context[Any, Any]) -> str:
        """What the team means by a term."""
        for done in (1, 2):
            await context.report_progress(done, 2)
        # The SDK drops notifications that it reads together with the response.
        await arrived.wait()
        return f"{term}: an order of messages"

    async def received() -> None:
        arrived.set()

    def refuse() -> str:
        raise MCPError(-33001, "an error of the server, with a code of the binding")

    async def wait(context: Context[Any, Any]) -> None:
        nonlocal stopped
        try:
            await context.report_progress(0)
            await asyncio.Event().wait()
        finally:
            stopped += 1

    typescript = PEERS[1]["typescript"]
    require(typescript)
    command = [*typescript.runner, str(HERE / "peers/ts_mcp_caller.mjs"), str(version)]
    target = accord.chain(PASS, command) if chained else command
    async with accord.connect(target) as agent:
        assert agent.version == version
        session = await agent.new_session(tmp_path, tools=[lookup, refuse, received, wait])
        async with session.prompt("work") as turn:
            await turn.wait()
    report = json.loads(turn.text)
    assert report == {
        "declared": ["acp", "tools"],
        "versions": ["2026-07-28"],
        "tools": [
            ["lookup", "What the team means by a term."],
            *[[name, ""] for name in ("refuse", "received", "wait")],
        ],
        "progress": [["notifications/progress", done, 2] for done in (1, 2)],
        "text": "lane: an order of messages",
        "refused": ["inner", -33001],
        "unknown": ["inner", -32601],
        "version": ["inner", -32022],
        "elsewhere": ["outer", -33001],
        "limit": ["outer", -33000],
        "duplicate": -32602,
        "waiting": ['["outer",-32800]'],
    }
    assert stopped == 64
