"""MCP over ACP: messages of the Model Context Protocol, carried to and from a declared server."""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

from accord.wire.base import UNSET, ByShape, Int32, KeepsMore, UnsetType, Wire

__all__ = (
    "McpError",
    "McpRequestId",
    "McpServerAcpId",
    "MessageMcpError",
    "MessageMcpNotification",
    "MessageMcpRequest",
    "MessageMcpResponse",
    "MessageMcpResult",
)

McpServerAcpId: TypeAlias = str
McpRequestId: TypeAlias = str


class _Message(Wire):
    """An MCP message; `request_id` names the inner request and is made by its caller."""

    __unstable__: ClassVar[bool] = True

    server_id: McpServerAcpId
    request_id: McpRequestId
    method: str
    params: dict[str, Any] | None = None


class MessageMcpRequest(_Message):
    """An MCP request to the server that was declared with this id."""


class MessageMcpNotification(_Message):
    """An MCP notification from the server, while the named request is active."""


class McpError(KeepsMore):
    """The error of the MCP server; its codes are not those of ACP."""

    __unstable__: ClassVar[bool] = True

    code: Int32
    message: str
    data: Any | UnsetType = UNSET


class MessageMcpResult(Wire):
    """The server answered with a result: any JSON."""

    __unstable__: ClassVar[bool] = True

    result: Any


class MessageMcpError(Wire):
    """The server answered with an error."""

    __unstable__: ClassVar[bool] = True

    error: McpError


MessageMcpResponse: TypeAlias = ByShape[MessageMcpResult | MessageMcpError]
