"""Provides tools to a session, and imports what that needs when it is used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from accord.installed import install_command
from accord.mcp.provider import McpProvider

if TYPE_CHECKING:
    from accord.mcp.bridges import SessionTools


async def provide_tools(
    tools: Iterable[object],
    provider: McpProvider,
    transports: Collection[str],
    taken: Iterable[str] = (),
) -> SessionTools:
    """Serve tools to a session that is about to be opened: over ACP, else over HTTP, else by stdio.

    Add the `declarations` of the result to the `mcpServers` of the session; `aclose` it at the end
    of the session. `transports` are those that the agent supports (`acp`, `http`, `stdio`), and
    `taken` the names of the session's other MCP servers. Raises `LocalProtocolError` if the agent
    supports none of them, `TypeError` for what is not a tool, and `ModuleNotFoundError` without the
    extra `mcp`.
    """
    # In a thread: the import takes longer than a connection should be left alone.
    session_tools = await asyncio.to_thread(_session_tools)
    return await session_tools.open(tools, provider, transports, taken)


async def check_tools(tools: Iterable[object]) -> None:
    """Raise `TypeError` or `ValueError` for tools that cannot be described to an agent.

    Without the extra `mcp`, nothing is checked.
    """
    try:
        servers_from = await asyncio.to_thread(_servers_from)
    except ModuleNotFoundError:
        return  # no tools can be served: a session that needs them says so
    servers_from(tools)


def _servers_from() -> Callable[[Iterable[object]], object]:
    _session_tools()
    from accord.mcp.servers import servers_from

    return servers_from


def _session_tools() -> type[SessionTools]:
    try:
        from accord.mcp.bridges import SessionTools
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("anyio", "mcp", "pydantic", "uvicorn"):
            raise
        hint = f"tools=[…] requires more packages: {install_command('mcp')}"
        raise ModuleNotFoundError(hint, name=error.name) from None
    return SessionTools
