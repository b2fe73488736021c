"""The MCP servers that an agent can use."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from accord.client.connect import ConnectedAgent
from accord.types.mcp import McpServer, mcp_transport


def usable_servers(
    agent: ConnectedAgent, servers: Sequence[McpServer], warn: Callable[[str], None]
) -> list[McpServer]:
    """Return these servers, and warn of the others: the session is opened without them."""
    usable: list[McpServer] = []
    for server in servers:
        if agent.supports_mcp_server(server):
            usable.append(server)
        else:
            kind = mcp_transport(server)
            warn(f"Without the MCP server {server.name}: the agent does not support {kind}")
    return usable
