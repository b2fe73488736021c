"""Types that both versions have: MCP over ACP, and what a proxy and its conductor exchange."""

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
    "ProxySuccessorNotification",
    "ProxySuccessorRequest",
    "ProxySuccessorResponse",
)

# MCP over ACP: messages of the Model Context Protocol, carried to and from a declared server.

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


# Between a proxy and the conductor: wrapped messages.


class _Wrapped(Wire):
    """A message for the next component; `meta` belongs to this hop only."""

    __unstable__: ClassVar[bool] = True

    method: str
    params: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.params, str | int | float):
            raise ValueError("`params` must be an object or an array")


class ProxySuccessorRequest(_Wrapped):
    """A request for the next component, wrapped."""


class ProxySuccessorNotification(_Wrapped):
    """A notification for the next component, wrapped."""


# The wrapped result as it came: any JSON.
ProxySuccessorResponse: TypeAlias = Any
