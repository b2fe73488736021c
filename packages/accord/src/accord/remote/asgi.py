"""`accord.asgi`: an agent as an ASGI application.

`RemoteApp` is the application; `serve_process` serves each connection by a process of its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Coroutine, Sequence
from typing import Any

from accord.agent.agent import Agent, serve
from accord.connection.limits import FloodLog
from accord.errors import TransportError
from accord.remote.access import (
    Access,
    Authenticate,
    ConnectionLimits,
    HttpLimits,
    NetworkTransport,
    OpenConnections,
    Principal,
    Receive,
    Refusal,
    Scope,
    Send,
    allow_origin,
    cors_preflight,
    headers_of,
    path_of,
    respond,
    respond_refusal,
)
from accord.remote.access_log import (
    RefusedRequests,
    RequestLog,
    default_observers,
    log_refused_handshake,
    short_id,
)
from accord.remote.asgi_socket import handshake_of
from accord.remote.guarded_transport import (
    FrameGuard,
    GuardedTransport,
    McpGuard,
    McpPolicy,
    SessionOwners,
    SessionOwnersGuard,
)
from accord.remote.http_connection import HttpConnection
from accord.remote.http_server import HttpServer, RequestBody
from accord.remote.monitor import Monitor, ServeConnection
from accord.text.excerpt import excerpt, one_line, visible
from accord.transports.base import Frame, Transport
from accord.transports.memory import relay
from accord.transports.process import argv_of, process
from accord.transports.registry import DEFAULT_PATH, REMOTE_FRAME_BYTES

__all__ = ("RemoteApp", "ServeConnection", "asgi", "serve_process")

# The ASGI application that serves an agent on the network.


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


def asgi(
    agent: Agent | type[Agent] | str | Sequence[str],
    *,
    token: str | None = None,
    authenticate: Authenticate | None = None,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    insecure: bool = False,
    path: str = DEFAULT_PATH,
    limits: ConnectionLimits | None = None,
    http_limits: HttpLimits | None = None,
    allow_mcp: Sequence[str] | None = None,
    subprotocol_token: bool = False,
) -> RemoteApp:
    """Return an ASGI application that serves an agent by WebSocket and HTTP at `path`.

    `agent` is an agent object that all connections share, a class of which each connection gets
    an object, or the command of an agent on stdin and stdout, started for each connection.

    Clients must send `token`, by default the value of `ACCORD_TOKEN`, or pass `authenticate`,
    which gets a `RemoteRequest` and returns a `Principal` or None; `insecure` lets everybody in.
    With `authenticate`, a client sees and uses only the sessions of its principal (R-SEC-05).
    `hosts` are the names of this server in URLs, apart from those of this machine; `origins` those
    of web pages that may connect. `subprotocol_token` accepts the token of a WebSocket client also
    in its list of subprotocols, for web pages. Raises `ValueError` if there is no login.

    `allow_mcp` are the MCP servers that clients may name for their sessions, apart from those with
    public addresses: `stdio` for commands, `private` for addresses of private networks and of this
    machine, and HOST or HOST:PORT. By default all are allowed to clients on this machine, and
    none if `hosts`, `authenticate` or `insecure` lets others in (R-SEC-09).
    """
    if authenticate is None and not insecure:
        token = token or os.environ.get("ACCORD_TOKEN") or None
    access = Access(
        token=token,
        authenticate=authenticate,
        hosts=hosts,
        origins=origins,
        insecure=insecure,
        subprotocol_token=subprotocol_token,
    )
    if allow_mcp is None:
        allow_mcp = () if access.is_for_others else ("stdio", "private")
    policy = McpPolicy.of(allow_mcp)
    serve_agent = _server_of(agent)
    if not policy.allows_all:
        serve_agent = _guarded(serve_agent, McpGuard(policy))
    return RemoteApp(serve_agent, access, path=path, limits=limits, http_limits=http_limits)


def _guarded(serve_agent: ServeConnection, guard: FrameGuard) -> ServeConnection:
    """Return what checks the messages of clients before the agent receives them."""

    def serve_guarded(transport: Transport, principal: Principal) -> Coroutine[Any, Any, object]:
        return serve_agent(GuardedTransport(transport, (guard,)), principal)

    return serve_guarded


def _server_of(agent: Agent | type[Agent] | str | Sequence[str]) -> ServeConnection:
    """Return what serves a connection; each principal has its own sessions."""
    if isinstance(agent, (Agent, type)):
        make = agent if isinstance(agent, type) else lambda: agent

        def serve_here(transport: Transport, principal: Principal) -> Coroutine[Any, Any, object]:
            owner = None if principal.all_sessions else principal.name
            return serve(make(), transport, principal=owner)

        return serve_here
    argv = argv_of(agent)
    owners = SessionOwners()

    async def serve_one_process(transport: Transport, principal: Principal) -> None:
        if not principal.all_sessions:
            guard = SessionOwnersGuard(owners, principal.name)
            transport = GuardedTransport(transport, (guard,))
        owner = None if principal.all_sessions else principal.name
        await serve_process(argv, transport, principal=owner)

    return serve_one_process


# Serves each connection by an agent process of its own.

log: logging.Logger = logging.getLogger("accord.remote")

FIRST_MESSAGE_S = 30.0
PRINCIPAL_VARIABLE = "ACCORD_PRINCIPAL"


async def serve_process(
    argv: Sequence[str], transport: Transport, *, principal: str | None = None
) -> None:
    """Start an agent and pass on messages until the client or the agent ends.

    The agent gets the environment of this process without `ACCORD_TOKEN`, and the `principal` of
    the connection as `ACCORD_PRINCIPAL`: budgets of days are counted for each of them. Why it
    could not be started, or how it ended, is logged and not sent.
    """
    agent = process(
        *argv, env={"ACCORD_TOKEN": None, PRINCIPAL_VARIABLE: principal}, on_stderr=_log_stderr
    )()
    try:
        agent.spawn()
    except TransportError as exc:
        log.error("! the agent could not be started: %s", _shown(exc))
        await _wait_for_request(transport)
        return
    ended_first: list[Transport] = []
    log.debug("= agent process %d started", agent.pid)
    await relay(transport, agent, on_end=ended_first.append)
    if agent in ended_first:
        error = await agent.exit_error()
        log.warning("! agent process %d: %s", agent.pid, _shown(error or "ended"))


async def _wait_for_request(transport: Transport) -> None:
    """Wait for the first message of a client: its connection is closed with an answer to it."""
    waiting = _FirstFrame()
    await transport.start(waiting)
    await asyncio.wait([waiting.arrived], timeout=FIRST_MESSAGE_S)


class _FirstFrame:
    """The receiver that waits for a message, or for the end of input."""

    def __init__(self) -> None:
        self.arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def frames_received(self, frames: Sequence[Frame]) -> None:
        self._note()

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        self._note()

    def eof_received(self, error: Exception | None) -> None:
        self._note()

    def writable(self) -> None:
        pass

    def _note(self) -> None:
        if not self.arrived.done():
            self.arrived.set_result(None)


def _log_stderr(line: str) -> None:
    log.debug("agent: %s", one_line(visible(line)))  # may have what users have written


def _shown(error: object) -> str:
    return visible(one_line(excerpt(str(error), 500)))
