"""`accord.asgi`: an agent as an ASGI application."""

from __future__ import annotations

import os
from collections.abc import Coroutine, Sequence
from typing import Any

from accord.agent.agent import Agent, serve
from accord.remote.access import Access, Authenticate, Principal
from accord.remote.app import RemoteApp, ServeConnection
from accord.remote.connection_limits import ConnectionLimits
from accord.remote.guarded_transport import FrameGuard, GuardedTransport
from accord.remote.http_limits import HttpLimits
from accord.remote.mcp_policy import McpGuard, McpPolicy
from accord.remote.process_agent import serve_process
from accord.remote.session_owners import SessionOwners, SessionOwnersGuard
from accord.transports.base import Transport
from accord.transports.process import argv_of
from accord.transports.remote_address import DEFAULT_PATH


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
        await serve_process(argv, transport)

    return serve_one_process
