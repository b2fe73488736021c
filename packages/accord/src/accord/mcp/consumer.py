"""Calls the MCP servers of the peer: requests, and the notifications that belong to them.

The inner protocol is MCP 2026-07-28, which has no sessions: each request is complete in itself.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from accord.errors import McpBackendFailed, RemoteProtocolError
from accord.wire.shared import (
    MessageMcpError,
    MessageMcpNotification,
    MessageMcpRequest,
    MessageMcpResult,
)

# The revision of MCP that `mcp/message` carries, and what each request says about its sender.

MCP_VERSION = "2026-07-28"

# The keys in `_meta` of each request (R-MOA-13).
PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"


McpOutcome: TypeAlias = MessageMcpResult | MessageMcpError
# Gets the method and the params of a notification.
McpListener: TypeAlias = Callable[[str, dict[str, Any] | None], None]
# Sends `mcp/message`; calls the function for the response, before any later message is handled.
_Send: TypeAlias = Callable[[MessageMcpRequest, Callable[[], None]], Awaitable[McpOutcome]]


class McpConsumer:
    """The requests of one connection to MCP servers of the peer."""

    def __init__(self, send: _Send) -> None:
        self._send = send
        # Another consumer of the same server may be on the way: a proxy.
        self._prefix = os.urandom(8).hex()
        self._count = 0
        self._listeners: dict[tuple[str, str], McpListener] = {}

    async def request(
        self,
        server_id: str,
        method: str,
        params: Mapping[str, Any] | None,
        on_notification: McpListener,
    ) -> McpOutcome:
        """Send an MCP request and return its outcome; a cancel cancels it in the peer.

        `on_notification` gets the notifications that arrive before the outcome (R-MOA-15).
        Raises `RequestError` if the message could not be delivered or answered, for example
        `McpServerUnavailable`, and `TransportError`.
        """
        self._count += 1
        request_id = f"{self._prefix}-{self._count}"  # R-MOA-10: never used again
        key = server_id, request_id
        self._listeners[key] = on_notification
        request = MessageMcpRequest(
            server_id=server_id,
            request_id=request_id,
            method=method,
            params=_with_meta(params),
        )
        try:
            return await self._send(request, lambda: self._forget(key))
        except RemoteProtocolError as exc:
            message = "The response of the MCP server is not valid"
            raise McpBackendFailed(message, data={"serverId": server_id}) from exc
        finally:
            self._forget(key)

    def receive(self, message: MessageMcpNotification) -> None:
        """Pass a notification to the request that it belongs to; drop any other (R-MOA-07)."""
        listener = self._listeners.get((message.server_id, message.request_id))
        if listener is not None:
            listener(message.method, message.params)

    def _forget(self, key: tuple[str, str]) -> None:
        self._listeners.pop(key, None)


def _with_meta(params: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return params with what each MCP request has to say about its sender (R-MOA-13)."""
    given = dict(params or {})
    meta: dict[str, Any] = {PROTOCOL_VERSION: MCP_VERSION, CLIENT_CAPABILITIES: {}}
    given["_meta"] = meta | (given.get("_meta") or {})
    return given
