"""The ASGI application that serves an agent on the network."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from accord.errors import TransportError
from accord.remote.access import Access, Principal, Refusal
from accord.remote.asgi_socket import AsgiSocket
from accord.remote.asgi_types import Receive, Scope, Send, headers_of
from accord.remote.connection_limits import ConnectionLimits, OpenConnection, OpenConnections
from accord.remote.http_connection import HttpConnection
from accord.remote.http_limits import HttpLimits
from accord.remote.http_responses import allow_origin, cors_preflight, respond, respond_refusal
from accord.remote.http_server import HttpServer
from accord.transports.base import Transport
from accord.transports.remote_address import DEFAULT_PATH, REMOTE_FRAME_BYTES

__all__ = ("RemoteApp", "ServeConnection")

log: logging.Logger = logging.getLogger("accord.remote")

# Serves one connection until it ends.
ServeConnection: TypeAlias = Callable[[Transport, Principal], Coroutine[Any, Any, object]]

GOING_AWAY = 1001
INTERNAL = 1011


class RemoteApp:
    """Serves each connection to `path`, by WebSocket or streamable HTTP, by `serve`.

    An ASGI application: `await app(scope, receive, send)`. `/health` and `/ready` are answered
    to everybody; `/ready` has status 503 once `drain` was called.
    """

    def __init__(
        self,
        serve: ServeConnection,
        access: Access,
        *,
        path: str = DEFAULT_PATH,
        limits: ConnectionLimits | None = None,
        http_limits: HttpLimits | None = None,
        frame_bytes: int = REMOTE_FRAME_BYTES,
    ) -> None:
        self._serve = serve
        self._access = access
        self._path = path
        self._frame_bytes = frame_bytes
        self._connections = OpenConnections(limits or ConnectionLimits())
        self._http_server = HttpServer(
            self._run_http,
            self._connections,
            http_limits or HttpLimits(),
            frame_bytes=frame_bytes,
        )
        self._draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "websocket":
                await self._websocket(scope, receive, send)
            case "http":
                await self._http(scope, receive, send)
            case "lifespan":
                await self._lifespan(receive, send)
            case other:
                raise ValueError(f"Unknown kind of ASGI connection: {other!r}")

    # WebSocket.

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        admitted = await self._admit(scope)
        if isinstance(admitted, Refusal):
            await _refuse_upgrade(scope, send, admitted)
            return
        principal = admitted
        connection_id = secrets.token_hex(16)  # T7
        transport = AsgiSocket(receive, send, frame_bytes=self._frame_bytes)
        with self._connections.opened(principal, transport):
            headers = [(b"acp-connection-id", connection_id.encode())]
            # No subprotocol, and no extension: some clients refuse both (R-WS-11).
            await send({"type": "websocket.accept", "headers": headers})
            log.info("= %s: %s connected by WebSocket", connection_id, principal.name)
            await self._run(connection_id, transport, transport, principal)

    async def _run_http(self, connection: HttpConnection) -> None:
        principal = connection.principal
        log.info("= %s: %s connected by HTTP", connection.id, principal.name)
        await self._run(connection.id, connection, connection, principal)

    async def _run(
        self, connection_id: str, transport: Transport, opened: OpenConnection, principal: Principal
    ) -> None:
        try:
            await self._serve(transport, principal)
        except TransportError as exc:
            log.debug("= %s: %s", connection_id, exc)
        except Exception:
            log.exception("! %s: the agent failed", connection_id)
            opened.close_code = INTERNAL
            opened.close_reason = "internal error"  # R-WS-16
        finally:
            await transport.aclose()
            log.info("x %s: closed", connection_id)

    async def _admit(self, scope: Scope) -> Principal | Refusal:
        """Return who may connect, or why the client may not."""
        checked = await self._check(scope)
        if isinstance(checked, Refusal):
            return checked
        if self._draining:
            return Refusal(503, "This server is going away", (("Retry-After", "5"),))
        return self._connections.refusal(checked) or checked

    async def _check(self, scope: Scope) -> Principal | Refusal:
        """Return who sends a request, or why it is refused."""
        if scope["path"] != self._path:
            return Refusal(404, "There is no agent at this path", kind="path")
        return await self._access.check(scope)

    # HTTP.

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path == "/health":
            await _respond(send, 200, "ok")
            return
        if path == "/ready":
            await _respond(send, 503 if self._draining else 200, "ok")
            return
        headers = headers_of(scope)
        origin = headers.get("origin")
        if origin is not None and path == self._path and not self._access.check_origin(scope):
            if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
                await cors_preflight(allow_origin(send, origin[0]))  # has no login (R-HTTP-46)
                return
            send = allow_origin(send, origin[0])
        checked = await self._check(scope)
        if isinstance(checked, Refusal):
            await respond_refusal(scope, send, checked)
        else:
            await self._http_server(scope, checked, receive, send)

    # The end.

    async def drain(self, timeout_s: float) -> None:
        """Accept no more connections, notify the clients, and wait until they have ended."""
        self._draining = True
        self._http_server.accepts_connections = False
        transports = self._connections.transports()
        for transport in transports:
            transport.close_code = GOING_AWAY
            transport.close_reason = "the server is going away"
        await self._connections.wait_idle(timeout_s)
        await self._http_server.aclose()
        await asyncio.gather(*(transport.aclose() for transport in transports))

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while (await receive())["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        await self._http_server.aclose()
        await send({"type": "lifespan.shutdown.complete"})


async def _respond(
    send: Send, status: int, text: str, headers: tuple[tuple[str, str], ...] = ()
) -> None:
    """Send a complete response of one line."""
    await respond(send, status, f"{text}\n".encode(), "text/plain; charset=utf-8", headers)


async def _refuse_upgrade(scope: Scope, send: Send, refusal: Refusal) -> None:
    """Answer a handshake with a status; servers without the extension answer 403."""
    log.info("! refused a WebSocket connection with status %d", refusal.status)
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close"})
        return

    async def send_response(event: Any) -> None:
        await send({**event, "type": f"websocket.{event['type']}"})

    await _respond(send_response, refusal.status, refusal.text, refusal.headers)
