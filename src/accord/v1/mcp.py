"""MCP: the servers that a session may use, and its messages when they travel over ACP (v1)."""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

from accord.v1.ids import McpRequestId, McpServerAcpId
from accord.v1.terminal import EnvVariable
from accord.wire.base import (
    UNSET,
    Bare,
    ByShape,
    Int32,
    NullAsEmpty,
    UnsetType,
    Unstable,
    Wire,
)

__all__ = (
    "HttpHeader",
    "McpError",
    "McpServer",
    "McpServerAcp",
    "McpServerHttp",
    "McpServerSse",
    "McpServerStdio",
    "MessageMcpError",
    "MessageMcpNotification",
    "MessageMcpRequest",
    "MessageMcpResponse",
    "MessageMcpResult",
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


class MessageMcpRequest(Wire):
    """An MCP request from the agent to a server of type acp."""

    __unstable__: ClassVar[bool] = True

    server_id: McpServerAcpId
    request_id: McpRequestId  # made by the sender; not the JSON-RPC id
    method: str
    params: dict[str, Any] | None = None


class MessageMcpNotification(Wire):
    """An MCP notification about a request that is still being served."""

    __unstable__: ClassVar[bool] = True

    server_id: McpServerAcpId
    request_id: McpRequestId
    method: str
    params: dict[str, Any] | None = None


class McpError(Bare):
    """The error that an MCP server answered with."""

    __unstable__: ClassVar[bool] = True

    code: Int32
    message: str
    data: Any | UnsetType = UNSET  # null and absent differ


class MessageMcpResult(Wire):
    """The MCP server's result."""

    __unstable__: ClassVar[bool] = True

    result: Any


class MessageMcpError(Wire):
    """The MCP server refused; to ACP that is a success all the same."""

    __unstable__: ClassVar[bool] = True

    error: McpError


MessageMcpResponse: TypeAlias = ByShape[MessageMcpResult | MessageMcpError]
