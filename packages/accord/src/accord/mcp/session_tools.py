"""Serves the tools of one session by the transport that its agent supports."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from accord.errors import LocalProtocolError
from accord.mcp.http_bridge import HttpBridge
from accord.mcp.provider import McpProvider
from accord.mcp.server_backend import ServerBackend
from accord.mcp.servers import NamedServer, servers_from
from accord.mcp.stdio_bridge import StdioBridge
from accord.types.mcp import McpServer, McpServerAcp


class _Bridge(Protocol):
    """What serves servers to one session."""

    async def start(self) -> Sequence[McpServer]: ...
    async def aclose(self) -> None: ...


class SessionTools:
    """The tools of one session."""

    def __init__(self, bridge: _Bridge, declarations: Sequence[McpServer]) -> None:
        self.declarations: Sequence[McpServer] = declarations
        """The entries for `mcpServers` of the request that opens the session."""
        self._bridge = bridge

    @classmethod
    async def open(
        cls,
        tools: Iterable[object],
        provider: McpProvider,
        transports: Collection[str],
        taken: Iterable[str],
    ) -> SessionTools:
        """Serve tools: over ACP if the agent supports it, else over HTTP, else over stdio.

        `transports` are those that the agent supports, `taken` the names of other MCP servers.
        """
        servers = servers_from(tools, taken)
        bridge: _Bridge
        if "acp" in transports:
            bridge = _Registrations(provider, servers)
        elif "http" in transports:
            bridge = HttpBridge(servers)
        elif "stdio" in transports:
            bridge = StdioBridge(servers)
        else:
            raise LocalProtocolError(
                "tools=[…]: the agent supports none of the transports acp, http and stdio of MCP"
            )
        try:
            return cls(bridge, await bridge.start())
        except BaseException:
            await bridge.aclose()
            raise

    async def aclose(self) -> None:
        """Stop serving the tools."""
        await self._bridge.aclose()


class _Registrations:
    """The servers of a session, registered with the provider of its connection."""

    def __init__(self, provider: McpProvider, servers: Sequence[NamedServer]) -> None:
        self._registrations = [
            provider.register(named.name, ServerBackend(named.server)) for named in servers
        ]

    async def start(self) -> Sequence[McpServerAcp]:
        return [registration.declaration for registration in self._registrations]

    async def aclose(self) -> None:
        for registration in self._registrations:
            await registration.aclose()
