"""Serves requests of a provider with a server of the library `mcp`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
from mcp import MCPError
from mcp.server import Server
from mcp.server.connection import Connection
from mcp.server.runner import serve_one
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.transport_context import TransportContext
from mcp.types import INVALID_PARAMS, ErrorData
from pydantic import ValidationError

from accord.mcp.lifespan import ServerLifespan
from accord.mcp.provider import McpCall
from accord.mcp.revision import CLIENT_CAPABILITIES, CLIENT_INFO, MCP_VERSION
from accord.wire.base import UNSET
from accord.wire.shared import (
    McpError,
    MessageMcpError,
    MessageMcpResponse,
    MessageMcpResult,
)

_TRANSPORT = TransportContext(kind="acp", can_send_request=False)


class ServerBackend:
    """A server of the library `mcp`; each request is served on its own, as revision 2026-07-28."""

    def __init__(self, server: Server[Any]) -> None:
        self._server = server
        self._lifespan = ServerLifespan(server)

    async def serve(self, call: McpCall) -> MessageMcpResponse:
        """Return the outcome of a request."""
        lifespan_state = await self._lifespan.state()
        meta = call.meta
        connection = Connection.from_envelope(
            MCP_VERSION, meta.get(CLIENT_INFO), meta[CLIENT_CAPABILITIES]
        )
        try:
            result = await serve_one(
                self._server,
                _RequestContext(call),
                call.method,
                call.params,
                connection=connection,
                lifespan_state=lifespan_state,
            )
        except MCPError as error:
            return MessageMcpError(error=_error(error.error))
        except ValidationError:  # of the params
            message = "Invalid request parameters"
            return MessageMcpError(error=McpError(code=INVALID_PARAMS, message=message))
        return MessageMcpResult(result=result)

    async def aclose(self) -> None:
        """Leave the lifespan of the server."""
        await self._lifespan.aclose()


class _RequestContext:
    """What the library needs of the transport of one request.

    Notifications belong to the request, and servers cannot send requests (R-MOA-09, R-MOA-13).
    """

    transport: TransportContext = _TRANSPORT
    can_send_request: bool = False
    message_metadata: None = None

    def __init__(self, call: McpCall) -> None:
        self.request_id: str = call.request_id
        self.cancel_requested: anyio.Event = anyio.Event()
        self._call = call

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        await self._call.notify(method, params)

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        token = self._call.meta.get("progressToken")
        if not isinstance(token, str | int) or isinstance(token, bool):
            return  # the caller does not want progress
        params: dict[str, Any] = {"progressToken": token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        await self.notify("notifications/progress", params)


def _error(error: ErrorData) -> McpError:
    data = UNSET if error.data is None else error.data
    return McpError(code=error.code, message=error.message, data=data)
