"""MCP servers that a session is given: good ones, and lists that cannot be taken."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from accord.text.lenient_json import is_object
from accord_conformance.agent.client import Json
from accord_conformance.agent.context import AgentContext
from accord_conformance.harness.scenario import scenario
from accord_conformance.traffic.strict_types import format_value

__all__ = ("SCENARIOS",)

_SERVER = Path(__file__).with_name("mcp_server.py")


def _server(version: int, name: str = "accord-check") -> Json:
    """Return an entry for a server that does nothing."""
    entry: Json = {"name": name, "command": sys.executable, "args": [str(_SERVER)], "env": []}
    return entry if version == 1 else {"type": "stdio", **entry}


@scenario("mcp/stdio", "R-MCP-01")
async def _stdio(stage: AgentContext) -> None:
    """A session gets an MCP server on stdio."""
    editor = stage.client
    editor.require("MCP over stdio")
    await editor.new_session()
    call = editor.connection.send_request(
        "session/new", editor.setup_params(mcpServers=[_server(stage.version)])
    )
    await editor.connection.wait_for_response(call, within_s=stage.settings.timeout)
    await stage.expect_success(
        "R-MCP-01", editor, call, why="a session with an MCP server on stdio"
    )


@scenario("mcp/malformed", "R-MCP-12")
async def _malformed(stage: AgentContext) -> None:
    """One of the servers is malformed, so there is no session."""
    editor = stage.client
    await editor.new_session()
    odd: dict[str, Json] = {
        "an MCP server whose name is a number": _server(stage.version) | {"name": 5},
        "an MCP server that is not said how to reach": {"name": "nowhere", "type": "stdio"},
    }
    for why, entry in odd.items():
        servers = [_server(stage.version), entry] if editor.supports("MCP over stdio") else [entry]
        call = editor.connection.send_request(
            "session/new", editor.setup_params(mcpServers=servers)
        )
        await editor.connection.wait_for_response(call, within_s=stage.settings.timeout)
        await stage.expect_error("R-MCP-12", editor, call, (), why=why)


@scenario("mcp/duplicates", "R-MCP-15", versions=(2,))
async def _duplicates(stage: AgentContext) -> None:
    """Two servers have one name; one comes by a way that is not offered."""
    editor = stage.client
    await editor.new_session()
    if editor.supports("MCP over stdio"):
        entries = [_server(2), _server(2)]
        await _refused(stage, entries, "name", "accord-check", "two servers of one name")
    if not editor.supports("MCP over HTTP"):
        web: Json = {"type": "http", "name": "web", "url": "https://example.com/mcp", "headers": []}
        await _refused(stage, [web], "type", "http", "a transport that is not offered")


async def _refused(
    stage: AgentContext, servers: list[Json], key: str, value: str, why: str
) -> None:
    editor = stage.client
    call = editor.connection.send_request("session/new", editor.setup_params(mcpServers=servers))
    await editor.connection.wait_for_response(call, within_s=stage.settings.timeout)
    error: Any = call.response.error if call.response else None
    data = error.get("data") if is_object(error) else None
    stage.judge(
        "R-MCP-15",
        call.code == -32602 and is_object(data) and data.get(key) == value,
        call,
        expected=f"-32602 with the {key} in `data` for {why}",
        got=f"code {call.code}, data {format_value(data)}",
    )


SCENARIOS = (_stdio, _malformed, _duplicates)
