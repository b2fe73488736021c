"""The MCP servers of a session (v2)."""

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
    """An MCP server that uses streamable HTTP."""

    name: str
    url: Uri
    headers: NullAsEmpty[list[HttpHeader]] = []


class McpServerAcp(Wire, tag_field="type", tag="acp"):
    """An MCP server in the client or a proxy, used through this connection."""

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
    """MCP servers may use HTTP."""


class McpAcpCapabilities(Wire):
    """MCP servers may be used through this connection."""

    __unstable__: ClassVar[bool] = True


class McpCapabilities(Wire):
    """The transports of MCP servers that the agent supports."""

    stdio: Lenient[McpStdioCapabilities | None] = None
    http: Lenient[McpHttpCapabilities | None] = None
    acp: Unstable[Lenient[McpAcpCapabilities | None]] = None
