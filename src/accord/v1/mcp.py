"""MCP servers that a session may use (v1)."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from accord.v1.terminal import EnvVariable
from accord.wire.base import ByShape, NullAsEmpty, Unstable, Wire
from accord.wire.shared.mcp_message import McpServerAcpId

__all__ = (
    "HttpHeader",
    "McpServer",
    "McpServerAcp",
    "McpServerHttp",
    "McpServerSse",
    "McpServerStdio",
)


class HttpHeader(Wire):
    """One header, sent with every request."""

    name: str
    value: str


class McpServerHttp(Wire, tag_field="type", tag="http"):
    """An MCP server reached by streamable HTTP."""

    name: str
    url: str
    headers: NullAsEmpty[list[HttpHeader]]


class McpServerSse(Wire, tag_field="type", tag="sse"):
    """An MCP server reached by server-sent events, the older way."""

    name: str
    url: str
    headers: NullAsEmpty[list[HttpHeader]]


class McpServerAcp(Wire, tag_field="type", tag="acp"):
    """An MCP server that the sender keeps; it is reached by `mcp/message`."""

    __unstable__: ClassVar[bool] = True

    name: str
    server_id: McpServerAcpId  # unique on the connection


class McpServerStdio(Wire):
    """An MCP server that the agent starts and talks to over stdin and stdout."""

    name: str
    command: str  # absolute path
    args: NullAsEmpty[list[str]]
    env: NullAsEmpty[list[EnvVariable]]


McpServer: TypeAlias = ByShape[
    McpServerHttp | McpServerSse | Unstable[McpServerAcp] | McpServerStdio
]
