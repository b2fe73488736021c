"""Connects sessions to their MCP servers. The library `mcp` is imported when the first needs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from accord.installed import install_command

if TYPE_CHECKING:
    from accord.agent.hooks import AgentHooks
    from accord.mcp.consumer import McpConsumer
    from accord.mcp.consumer_connections import McpConnections
    from accord.types.mcp import McpServer


def mcp_connections(
    agent: AgentHooks, servers: Sequence[McpServer], cwd: str, consumer: McpConsumer
) -> McpConnections:
    """Return the connections of a session; raise `ImportError` without the library `mcp`."""
    try:
        from accord.mcp.consumer_connections import McpConnections
    except ImportError as exc:
        message = f"MCP servers need the extra: {install_command('mcp')}"
        raise ImportError(message) from exc
    info = agent.info
    name, version = (type(agent).__name__, "0") if info is None else (info.name, info.version)
    return McpConnections(servers, cwd=cwd, consumer=consumer, client_info=(name, version))
