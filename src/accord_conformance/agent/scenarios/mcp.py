"""MCP servers of a session: valid and invalid lists."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from accord.text.lenient_json import is_object
from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.scenario_client import Json
from accord_conformance.harness.scenario import scenario
from accord_conformance.traffic.strict_types import format_value

__all__ = ("SCENARIOS",)

_SERVER = Path(__file__).with_name("mcp_server.py")


def _server(version: int, name: str = "accord-check") -> Json:
    """Return an entry for a server without tools."""
    entry: Json = {"name": name, "command": sys.executable, "args": [str(_SERVER)], "env": []}
    return entry if version == 1 else {"type": "stdio", **entry}


# Servers start no commands for remote clients (R-SEC-09).
@scenario("mcp/stdio", "R-MCP-01", media=("stdio",))
async def _stdio(context: AgentContext) -> None:
    """A session has an MCP server on stdio."""
    client = context.client
    client.require("MCP over stdio")
    await client.new_session()
    call = client.connection.send_request(
        "session/new", client.setup_params(mcpServers=[_server(context.version)])
    )
    await client.connection.wait_for_response(call, within_s=context.settings.timeout)
    await context.expect_success(
        "R-MCP-01", client, call, why="a session with an MCP server on stdio"
    )


@scenario("mcp/malformed", "R-MCP-12")
async def _malformed(context: AgentContext) -> None:
    """One of the servers is malformed, so the agent must refuse the session."""
    client = context.client
    await client.new_session()
    odd: dict[str, Json] = {
        "an MCP server whose name is a number": _server(context.version) | {"name": 5},
        "an MCP server without command and URL": {"name": "nowhere", "type": "stdio"},
    }
    for why, entry in odd.items():
        servers = (
            [_server(context.version), entry] if client.supports("MCP over stdio") else [entry]
        )
        call = client.connection.send_request(
            "session/new", client.setup_params(mcpServers=servers)
        )
        await client.connection.wait_for_response(call, within_s=context.settings.timeout)
        await context.expect_error("R-MCP-12", client, call, (), why=why)


@scenario("mcp/duplicates", "R-MCP-15", versions=(2,), media=("stdio",))
async def _duplicates(context: AgentContext) -> None:
    """Two servers have one name, and one uses a transport that is not advertised."""
    client = context.client
    await client.new_session()
    if client.supports("MCP over stdio"):
        entries = [_server(2), _server(2)]
        await _refused(context, entries, "name", "accord-check", "two servers with the same name")
    if not client.supports("MCP over HTTP"):
        web: Json = {"type": "http", "name": "web", "url": "https://example.com/mcp", "headers": []}
        await _refused(context, [web], "type", "http", "a transport that is not advertised")


async def _refused(
    context: AgentContext, servers: list[Json], key: str, value: str, why: str
) -> None:
    client = context.client
    call = client.connection.send_request("session/new", client.setup_params(mcpServers=servers))
    await client.connection.wait_for_response(call, within_s=context.settings.timeout)
    error: Any = call.response.error if call.response else None
    data = error.get("data") if is_object(error) else None
    context.judge(
        "R-MCP-15",
        call.code == -32602 and is_object(data) and data.get(key) == value,
        call,
        expected=f"-32602 with the {key} in `data` for {why}",
        got=f"code {call.code}, data {format_value(data)}",
    )


SCENARIOS = (_stdio, _malformed, _duplicates)
