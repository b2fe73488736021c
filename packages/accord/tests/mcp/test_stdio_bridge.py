"""The stdio command that connects back: clients of both eras, its token and its end."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.server.mcpserver import Context

from accord.mcp.bridges import StdioBridge
from accord.mcp.consumer import MCP_VERSION
from accord.mcp.servers import servers_from
from accord.mcp.shim import PORT, TOKEN
from accord.types.mcp import McpServerStdio
from client.wire_agents import BOTH, agent_by_hand
from mcp_tools import META, capabilities, open_session, text_of


def lookup(term: str) -> str:
    """What the team means by a term."""
    return f"{term}: an order of messages"


@asynccontextmanager
async def bridge(*tools: Any) -> AsyncGenerator[tuple[McpServerStdio, StdioBridge], None]:
    served = StdioBridge(servers_from(tools or [lookup]))
    try:
        (declared,) = await served.start()
        yield declared, served
    finally:
        await served.aclose()


def client(declared: McpServerStdio, mode: Any) -> Client:
    parameters = StdioServerParameters(
        command=declared.command, args=list(declared.args), env=dict(declared.env), cwd="/"
    )
    return Client(stdio_client(parameters), mode=mode)


async def shim(declared: McpServerStdio, **env: str) -> asyncio.subprocess.Process:
    """Start the command as an agent does, with nothing else in its environment."""
    return await asyncio.create_subprocess_exec(
        declared.command,
        *declared.args,
        env={**declared.env, **env},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@pytest.mark.parametrize("mode", ["legacy", MCP_VERSION, "auto"])
async def test_clients_with_and_without_a_handshake_call_a_function(mode: str) -> None:
    async def work(context: Context[Any, Any]) -> str:
        await context.report_progress(1, 2, "half")
        return "done"

    seen: list[Any] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with bridge(lookup, work) as (declared, _), client(declared, mode) as connected:
        names = [tool.name for tool in (await connected.list_tools()).tools]
        assert names == ["lookup", "work"]
        result = await connected.call_tool("lookup", {"term": "lane ä\u2028"})
        assert text_of(result) == "lane ä\u2028: an order of messages"
        await connected.call_tool("work", {}, progress_callback=note)
    assert seen == [(1, 2, "half")]


async def test_the_token_is_in_the_environment_only() -> None:
    async with bridge() as (declared, _):
        assert declared.command == sys.executable
        assert len(declared.env[TOKEN]) == 43
        assert not any(declared.env[TOKEN] in argument for argument in declared.args)


async def test_several_connections_share_one_server() -> None:
    async with (
        bridge() as (declared, _),
        client(declared, "legacy") as one,
        client(declared, MCP_VERSION) as two,
    ):
        for connected in (one, two):
            await connected.call_tool("lookup", {"term": "lane"})


@pytest.mark.parametrize("token", ["", "wrong"])
async def test_a_wrong_token_is_refused(token: str, caplog: pytest.LogCaptureFixture) -> None:
    async with bridge() as (declared, _):
        process = await shim(declared, **{TOKEN: token})
        output, _errors = await process.communicate(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        assert (output, process.returncode) == (b"", 0)
    assert "wrong token" in caplog.text
    assert declared.env[TOKEN] not in caplog.text


async def test_the_command_ends_with_its_stdin() -> None:
    async with bridge() as (declared, _):
        process = await shim(declared)
        assert process.stdin is not None
        process.stdin.close()
        assert await process.wait() == 0


async def test_lines_that_are_not_messages_do_not_end_the_connection() -> None:
    async with bridge() as (declared, _):
        process = await shim(declared)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'no\n{"jsonrpc":"2.0","id":7,"method":"ping"}\n')
        assert b'"id":7' in await process.stdout.readline()
        process.stdin.close()
        assert await process.wait() == 0


@pytest.mark.parametrize("how", ["cancel", "kill"])
async def test_a_cancelled_call_and_a_killed_command_stop_the_function(how: str) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with bridge(wait) as (declared, _):
        process = await shim(declared)
        assert process.stdin is not None
        params = {"name": "wait", "arguments": {}, "_meta": META}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        process.stdin.write(json.dumps(call).encode() + b"\n")
        await started.wait()
        if how == "kill":
            process.kill()
        else:
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
            cancel |= {"params": {"requestId": 1}}
            process.stdin.write(json.dumps(cancel).encode() + b"\n")
        await stopped.wait()
        process.stdin.close()
        await process.communicate()


@BOTH
async def test_the_command_ends_with_its_session(version: int) -> None:
    async with agent_by_hand(version, initialize=capabilities(version, "stdio")) as (agent, raw):
        (server,) = (await open_session(agent, raw, lookup)).servers
        env = {each["name"]: each["value"] for each in server["env"]}
        declared = McpServerStdio(server["name"], server["command"], tuple(server["args"]), env)
        running = await shim(declared)
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        assert b'"id":1' in await running.stdout.readline()
        closing = asyncio.create_task(agent.close_session("s1"))
        request = await raw.get()
        raw.answer(request["id"], {})
        await closing
        assert await running.wait() == 0
        late = await shim(declared)
        _, errors = await late.communicate()
        assert late.returncode == 1
        assert b"has ended" in errors


async def test_without_its_environment_the_command_explains_itself() -> None:
    async with bridge() as (declared, _):
        process = await asyncio.create_subprocess_exec(
            declared.command, *declared.args, env={}, stderr=asyncio.subprocess.PIPE
        )
        _, errors = await process.communicate()
        assert process.returncode == 1
        assert PORT.encode() in errors
