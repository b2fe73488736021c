"""MCP servers of a task, which has them as ACP writes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from accord import McpServerHttp, McpServerSse, McpServerStdio
from accord_fleet.errors import FleetError


class _Pair(msgspec.Struct, frozen=True):
    name: str
    value: str


class _Stdio(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[_Pair, ...] = ()
    type: Literal["stdio"] = "stdio"


class _Http(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    url: str
    type: Literal["http", "sse"]
    headers: tuple[_Pair, ...] = ()


def mcp_servers(
    servers: Iterable[dict[str, Any]],
) -> tuple[McpServerStdio | McpServerHttp | McpServerSse, ...]:
    """Return the servers as `new_session` takes them; raise `FleetError` for an invalid one."""
    found: list[McpServerStdio | McpServerHttp | McpServerSse] = []
    for number, server in enumerate(servers):
        try:
            found.append(_server(server))
        except msgspec.ValidationError as error:
            raise FleetError(f"mcp_servers[{number}]: {error}") from None
    return tuple(found)


def _server(server: dict[str, Any]) -> McpServerStdio | McpServerHttp | McpServerSse:
    if server.get("type", "stdio") == "stdio":
        stdio = msgspec.convert(server, _Stdio)
        env = {pair.name: pair.value for pair in stdio.env}
        return McpServerStdio(stdio.name, stdio.command, stdio.args, env)
    http = msgspec.convert(server, _Http)
    kind = McpServerHttp if http.type == "http" else McpServerSse
    return kind(http.name, http.url, {pair.name: pair.value for pair in http.headers})
