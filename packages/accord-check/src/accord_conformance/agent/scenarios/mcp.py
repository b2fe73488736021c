"""MCP servers of a session: valid and invalid lists."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from accord.text.lenient_json import is_object
from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.scenario_client import Json
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.message import Request
from accord_conformance.traffic.strict_types import format_value

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


_CARRY = "mcp/message"
_SERVER_ID = "accord-check-server"


@scenario("mcp/old-dialect", "R-MOA-16")
async def _old_dialect(context: AgentContext) -> None:
    """Requests that older drafts of MCP over ACP had."""
    client = context.client
    for method in ("mcp/connect", "_mcp/connect"):
        call = client.connection.send_request(method, {"acpId": "accord-check"})
        await context.expect_error("R-MOA-16", client, call, (-32601,), why=method)


@scenario("mcp/over-acp", "R-MOA-07", "R-MOA-15")
async def _over_acp(context: AgentContext) -> None:
    """The client has an MCP server, and sends notifications that belong to no active request."""
    client = context.client
    client.require("MCP over ACP")
    calls: list[Request] = []

    def serve(call: Request) -> None:
        calls.append(call)
        if len(calls) > 1:
            client.connection.respond(call, _outcome(call))

    client.mcp_policy = serve
    entry: Json = {"type": "acp", "name": "accord-check", "serverId": _SERVER_ID}
    opening = client.connection.send_request("session/new", client.setup_params(mcpServers=[entry]))
    await client.wait_for_optional(lambda: bool(calls or opening.response), "MCP request")
    if not calls and is_object(opening.result):
        # It may connect to its servers when a turn begins.
        client.prompt_for(str(opening.result.get("sessionId")), "text")
        await client.wait_for_optional(lambda: bool(calls), "MCP request")
    if not calls:
        raise NotExercised("the agent sent no request to the MCP server of the client")
    first = calls[0]
    unknown = "accord-check-none"
    if not await _drops(context, "R-MOA-07", unknown, "a request that it never made"):
        return
    client.connection.respond(first, _outcome(first))
    request = first.params.get("requestId") if is_object(first.params) else None
    await _drops(context, "R-MOA-15", request, "a request that was answered")


async def _drops(context: AgentContext, rule: str, request: Any, why: str) -> bool:
    """Send a notification; judge that the agent still responds, and return whether it does."""
    connection = context.client.connection
    inner: Json = {"progressToken": "accord-check", "progress": 1}
    params: Json = {"serverId": _SERVER_ID, "requestId": request, "params": inner}
    sent = connection.send_notification(_CARRY, {**params, "method": "notifications/progress"})
    try:
        await connection.call("_accord/settle", {})
        got = ""
    except NoResponse as silence:
        got = str(silence)
    expected = f"a notification for {why} is dropped"
    context.judge(rule, not got, sent, expected=expected, got=got)
    return not got


def _outcome(call: Request) -> Json:
    """Return the outcome of an MCP request: a server with one tool."""
    method = call.params.get("method") if is_object(call.params) else None
    shared: Json = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    tool: Json = {"name": "accord_check_echo", "inputSchema": {"type": "object"}}
    match method:
        case "server/discover":
            info: Json = {"name": "accord-check", "version": "1"}
            about: Json = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
            return {"result": {**shared, **about, "serverInfo": info}}
        case "tools/list":
            return {"result": {**shared, "tools": [tool]}}
        case "tools/call":
            return {"result": {**shared, "content": [{"type": "text", "text": "hello"}]}}
        case _:
            return {"error": {"code": -32601, "message": "Method not found"}}


SCENARIOS = (_stdio, _malformed, _duplicates, _old_dialect, _over_acp)
