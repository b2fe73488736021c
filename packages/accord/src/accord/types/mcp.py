"""MCP servers of a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct, field


def _none() -> Mapping[str, str]:
    return {}


class McpServerStdio(Struct, frozen=True):
    """A server that the agent starts (`v1.McpServerStdio`, `v2.McpServerStdio`).

    `command` is an absolute path.
    """

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=_none)


class McpServerHttp(Struct, frozen=True):
    """A server that uses streamable HTTP (`v1.McpServerHttp`, `v2.McpServerHttp`)."""

    name: str
    url: str
    headers: Mapping[str, str] = field(default_factory=_none)


class McpServerSse(Struct, frozen=True):
    """A server that uses server-sent events, an older transport (only `v1.McpServerSse`)."""

    name: str
    url: str
    headers: Mapping[str, str] = field(default_factory=_none)


class McpServerAcp(Struct, frozen=True):
    """A server in the client or in a proxy (unstable; `v1.McpServerAcp`, `v2.McpServerAcp`).

    Its messages travel over the connection of the session. `server_id` is unique on it.
    """

    name: str
    server_id: str


McpServer: TypeAlias = McpServerStdio | McpServerHttp | McpServerSse | McpServerAcp

_TRANSPORTS: dict[type, str] = {
    McpServerStdio: "stdio",
    McpServerHttp: "http",
    McpServerSse: "sse",
    McpServerAcp: "acp",
}


def mcp_transport(server: McpServer) -> str:
    """Return how an agent connects to a server: `stdio`, `http`, `sse` or `acp`."""
    return _TRANSPORTS[type(server)]
