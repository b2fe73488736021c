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
from accord.remote.asgi_types import Receive, Scope, Send
from accord.remote.connection_limits import ConnectionLimits, OpenConnections
from accord.transports.base import Transport
from accord.transports.remote_address import DEFAULT_PATH, REMOTE_FRAME_BYTES

__all__ = ("RemoteApp", "ServeConnection")

log: logging.Logger = logging.getLogger("accord.remote")

# Serves one connection until it ends.
ServeConnection: TypeAlias = Callable[[Transport, Principal], Coroutine[Any, Any, object]]

GOING_AWAY = 1001
INTERNAL = 1011


class RemoteApp:
    """Serves each WebSocket connection to `path` by `serve`.

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
        frame_bytes: int = REMOTE_FRAME_BYTES,
    ) -> None:
        self._serve = serve
        self._access = access
        self._path = path
        self._frame_bytes = frame_bytes
        self._connections = OpenConnections(limits or ConnectionLimits())
        self._draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "websocket":
                await self._websocket(scope, receive, send)
            case "http":
                await self._http(scope, receive, send)
            case "lifespan":
                await _lifespan(receive, send)
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
            try:
                await self._serve(transport, principal)
            except TransportError as exc:
                log.debug("= %s: %s", connection_id, exc)
            except Exception:
                log.exception("! %s: the agent failed", connection_id)
                transport.close_code = INTERNAL
                transport.close_reason = "internal error"  # R-WS-16
            finally:
                await transport.aclose()
                log.info("x %s: closed", connection_id)

    async def _admit(self, scope: Scope) -> Principal | Refusal:
        """Return who may connect, or why the client may not."""
        if scope["path"] != self._path:
            return Refusal(404, "There is no agent at this path")
        checked = await self._access.check(scope)
        if isinstance(checked, Refusal):
            return checked
        if self._draining:
            return Refusal(503, "This server is going away", (("Retry-After", "5"),))
        return self._connections.refusal(checked) or checked

    # HTTP.

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path == "/health":
            await _respond(send, 200, "ok")
        elif path == "/ready":
            await _respond(send, 503 if self._draining else 200, "ok")
        else:
            admitted = await self._admit(scope)
            if isinstance(admitted, Refusal):
                await _respond(send, admitted.status, admitted.text, admitted.headers)
                return
            needs = (("Upgrade", "websocket"), ("Connection", "Upgrade"))
            await _respond(send, 426, "Connect by WebSocket", needs)

    # The end.

    async def drain(self, timeout_s: float) -> None:
        """Accept no more connections, notify the clients, and wait until they have ended."""
        self._draining = True
        transports = self._connections.transports()
        for transport in transports:
            transport.close_code = GOING_AWAY
            transport.close_reason = "the server is going away"
        await self._connections.wait_idle(timeout_s)
        await asyncio.gather(*(transport.aclose() for transport in transports))


async def _respond(
    send: Send, status: int, text: str, headers: tuple[tuple[str, str], ...] = ()
) -> None:
    """Send a complete response of one line."""
    body = f"{text}\n".encode()
    sent = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        *((name.lower().encode(), value.encode()) for name, value in headers),
    ]
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": body})


async def _refuse_upgrade(scope: Scope, send: Send, refusal: Refusal) -> None:
    """Answer a handshake with a status; servers without the extension answer 403."""
    log.info("! refused a WebSocket connection with status %d", refusal.status)
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close"})
        return

    async def send_response(event: Any) -> None:
        await send({**event, "type": f"websocket.{event['type']}"})

    await _respond(send_response, refusal.status, refusal.text, refusal.headers)


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        event = await receive()
        if event["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        else:
            await send({"type": "lifespan.shutdown.complete"})
            return
