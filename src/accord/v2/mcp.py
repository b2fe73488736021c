"""MCP servers that a session is to use (v2)."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from accord.v2.ids import AbsolutePath, Uri
from accord.wire.base import Lenient, NullAsEmpty, Open, Unstable, Wire
from accord.wire.shared.mcp_message import McpServerAcpId

__all__ = (
    "EnvVariable",
    "HttpHeader",
    "McpAcpCapabilities",
    "McpCapabilities",
    "McpHttpCapabilities",
    "McpServer",
    "McpServerAcp",
    "McpServerHttp",
    "McpServerStdio",
    "McpStdioCapabilities",
)


class EnvVariable(Wire):
    """One variable of the environment of a process."""

    name: str
    value: str


class HttpHeader(Wire):
    """One header of HTTP requests."""

    name: str
    value: str


class McpServerHttp(Wire, tag_field="type", tag="http"):
    """An MCP server reached by streamable HTTP."""

    name: str
    url: Uri
    headers: NullAsEmpty[list[HttpHeader]] = []


class McpServerAcp(Wire, tag_field="type", tag="acp"):
    """An MCP server that lives in the client or a proxy and is reached through this connection."""

    __unstable__: ClassVar[bool] = True

    name: str
    server_id: McpServerAcpId


class McpServerStdio(Wire, tag_field="type", tag="stdio"):
    """An MCP server that the agent starts."""

    name: str
    command: AbsolutePath
    args: NullAsEmpty[list[str]] = []
    env: NullAsEmpty[list[EnvVariable]] = []


McpServer: TypeAlias = Open[McpServerHttp | Unstable[McpServerAcp] | McpServerStdio]


class McpStdioCapabilities(Wire):
    """MCP servers may be started as processes."""


class McpHttpCapabilities(Wire):
    """MCP servers may be reached by HTTP."""


class McpAcpCapabilities(Wire):
    """MCP servers may be reached through this connection."""

    __unstable__: ClassVar[bool] = True


class McpCapabilities(Wire):
    """Which MCP servers a session may be given."""

    stdio: Lenient[McpStdioCapabilities | None] = None
    http: Lenient[McpHttpCapabilities | None] = None
    acp: Unstable[Lenient[McpAcpCapabilities | None]] = None
