"""The MCP servers of a session (v1)."""

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
    """An MCP server that uses streamable HTTP."""

    name: str
    url: str
    headers: NullAsEmpty[list[HttpHeader]]


class McpServerSse(Wire, tag_field="type", tag="sse"):
    """An MCP server that uses server-sent events, an older transport."""

    name: str
    url: str
    headers: NullAsEmpty[list[HttpHeader]]


class McpServerAcp(Wire, tag_field="type", tag="acp"):
    """An MCP server of the sender, used with `mcp/message`."""

    __unstable__: ClassVar[bool] = True

    name: str
    server_id: McpServerAcpId  # unique on the connection


class McpServerStdio(Wire):
    """An MCP server that the agent starts and uses over stdin and stdout."""

    name: str
    command: str  # absolute path
    args: NullAsEmpty[list[str]]
    env: NullAsEmpty[list[EnvVariable]]


McpServer: TypeAlias = ByShape[
    McpServerHttp | McpServerSse | Unstable[McpServerAcp] | McpServerStdio
]
