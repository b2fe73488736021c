"""The ASGI application that serves an agent on the network."""

from __future__ import annotations

import logging
import secrets

from accord.connection.limits import FloodLog
from accord.errors import TransportError
from accord.remote.access import Access, Principal, Refusal
from accord.remote.access_log import RefusedRequests, RequestLog, log_refused_handshake, short_id
from accord.remote.asgi_socket import handshake_of
from accord.remote.asgi_types import Receive, Scope, Send, headers_of, path_of
from accord.remote.connection_limits import ConnectionLimits, OpenConnections
from accord.remote.http_body import RequestBody
from accord.remote.http_connection import HttpConnection
from accord.remote.http_limits import HttpLimits
from accord.remote.http_responses import allow_origin, cors_preflight, respond, respond_refusal
from accord.remote.http_server import HttpServer
from accord.remote.monitor import Monitor, ServeConnection
from accord.remote.network_transport import NetworkTransport
from accord.remote.observers import default_observers
from accord.transports.remote_address import DEFAULT_PATH, REMOTE_FRAME_BYTES

__all__ = ("RemoteApp", "ServeConnection")

log: logging.Logger = logging.getLogger("accord.remote")


class RemoteApp:
    """Serves each connection to `path`, by WebSocket or streamable HTTP, by `serve`.

    An ASGI application: `await app(scope, receive, send)`. `/health` and `/ready` are answered
    to everybody; `/ready` has status 503 once `drain` was called, and while the server is full.
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
        self._access = access
        self._path = path
        self._frame_bytes = frame_bytes
        limits = limits or ConnectionLimits()
        self._limits = limits
        self._connections = OpenConnections(limits)
        self._refused = RefusedRequests()
        self._flood_log = FloodLog(log)
        self._monitor = Monitor(serve, idle_s=limits.idle_s, observers=default_observers())
        self._http_server = HttpServer(
            self._run_http,
            self._connections,
            http_limits or HttpLimits(),
            frame_bytes=frame_bytes,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "websocket":
                await self._websocket(scope, receive, send)
            case "http":
                request = RequestLog(scope, receive, send, self._refused)
                try:
                    await self._http(scope, request.receive, request.send)
                finally:
                    request.done()
            case "lifespan":
                await self._lifespan(receive, send)
            case other:
                raise ValueError(f"Unknown kind of ASGI connection: {other!r}")

    # WebSocket.

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        handshake = await handshake_of(scope, receive, send, self._frame_bytes, self._limits)
        admitted = await self._admit(scope)
        if isinstance(admitted, Refusal):
            await handshake.refuse(admitted)
            log_refused_handshake(scope, admitted.status, self._refused)
            return
        principal = admitted
        connection_id = secrets.token_hex(16)  # T7
        transport = handshake.transport
        with self._connections.opened(principal, transport):
            # No extension, and no subprotocol unless offered: some clients refuse both (R-WS-11).
            headers = [(b"acp-connection-id", connection_id.encode())]
            await handshake.accept(headers, self._access.subprotocol(scope))
            log.debug("= %s: %s connected by WebSocket", connection_id, principal.shown)
            await self._run(connection_id, "websocket", transport, principal)

    async def _run_http(self, connection: HttpConnection) -> None:
        principal = connection.principal
        log.debug("= %s: %s connected by HTTP", connection.id, principal.shown)
        await self._run(connection.id, "http", connection, principal)

    async def _run(
        self, connection_id: str, kind: str, transport: NetworkTransport, principal: Principal
    ) -> None:
        try:
            await self._monitor.serve(transport, principal, id=connection_id, kind=kind)
        except TransportError as exc:
            log.debug("= %s: %s", connection_id, exc)
        except Exception as exc:  # noqa: BLE001  # of the agent
            self._flood_log.exception("! %s: the agent failed", short_id(connection_id), exc=exc)
        finally:
            await transport.aclose()
            log.debug("x %s: closed", connection_id)

    async def _admit(self, scope: Scope) -> Principal | Refusal:
        """Return who may connect, or why the client may not."""
        checked = await self._check(scope)
        if isinstance(checked, Refusal):
            return checked
        if self._monitor.draining:
            return Refusal(503, "This server is going away", (("Retry-After", "5"),))
        return self._connections.refusal(checked) or checked

    async def _check(self, scope: Scope) -> Principal | Refusal:
        """Return who sends a request, or why it is refused."""
        if path_of(scope) != self._path:
            return Refusal(404, "There is no agent at this path", kind="path")
        return await self._access.check(scope)

    # HTTP.

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = path_of(scope)
        if path == "/health":
            await _respond(send, 200, "ok")
            return
        if path == "/ready":
            await self._respond_ready(send)
            return
        headers = headers_of(scope)
        origin = headers.get("origin")
        if origin is not None and path == self._path and not self._access.check_origin(scope):
            if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
                await cors_preflight(allow_origin(send, origin[0]))  # has no login (R-HTTP-46)
                return
            send = allow_origin(send, origin[0])
        checked = await self._check(scope)
        request = RequestBody(receive)
        if isinstance(checked, Refusal):
            await request.discard()
            await respond_refusal(scope, send, checked)
        else:
            await self._http_server(scope, checked, request, send)

    async def _respond_ready(self, send: Send) -> None:
        """Answer whether a load balancer should send clients here."""
        if self._monitor.draining:
            await _respond(send, 503, "draining")
        elif self._connections.full:
            await _respond(send, 503, "full")
        else:
            await _respond(send, 200, "ok")

    # The end.

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while (await receive())["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        await self.drain(0)
        await send({"type": "lifespan.shutdown.complete"})

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return self._monitor.connections

    @property
    def running_turns(self) -> int:
        """The number of turns that are running."""
        return self._monitor.running_turns

    async def drain(self, timeout_s: float) -> None:
        """Let running turns end for at most `timeout_s` seconds, then end all connections.

        From now on connections and turns are refused. Each client is disconnected as soon as it
        has no running turn.
        """
        self._http_server.accepts_connections = False
        await self._monitor.drain(timeout_s)
        await self._http_server.aclose()

    async def disconnect(self, timeout_s: float) -> None:
        """End all connections now, and wait for their agents at most `timeout_s` seconds."""
        await self._monitor.disconnect(timeout_s)


async def _respond(
    send: Send, status: int, text: str, headers: tuple[tuple[str, str], ...] = ()
) -> None:
    """Send a complete response of one line."""
    await respond(send, status, f"{text}\n".encode(), "text/plain; charset=utf-8", headers)
