"""One connection, both versions: `initialize` decides which version is used.

`serve` is the agent's side, `connect` the client's. Each takes a role of one version, or one role
of each.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from accord.connection.connection import Connection, Observer
from accord.connection.limits import Limits
from accord.errors import AccordError
from accord.roles.agent_handshake import AgentHandshake
from accord.roles.binding import Role
from accord.roles.client_handshake import ClientHandshake
from accord.roles.lazy_role import LazyRole, RolesByVersion
from accord.roles.remote import Remote
from accord.transports.base import Transport, TransportFactory, opened

RemoteT = TypeVar("RemoteT", bound=Remote)


async def serve(
    transport: TransportFactory | Transport,
    *agents: Role[Any] | LazyRole[Any],
    limits: Limits | None = None,
    observers: Sequence[Observer] = (),
) -> None:
    """Serve one client until it disconnects.

    Raise `TransportError` if the client cannot be reached.
    """
    connection = Connection(await opened(transport), limits=limits)
    for observer in observers:
        connection.observe(observer)
    try:
        handshake = AgentHandshake(connection, RolesByVersion(agents, "agent"))
        await connection.start(handshake.first_routes())
        await connection.wait_ended()
    finally:
        await connection.aclose()


def run(agent: Role[Any]) -> None:
    """Serve one client on stdin and stdout until it disconnects."""
    from accord.transports.stdio import stdio  # clients do not need it

    asyncio.run(serve(stdio(restore=False), agent))


@asynccontextmanager
async def connect(
    transport: TransportFactory | Transport,
    *clients: Role[RemoteT] | LazyRole[RemoteT],
    limits: Limits | None = None,
    observers: Sequence[Observer] = (),
    initialize_timeout_s: float = 120.0,
) -> AsyncGenerator[RemoteT, None]:
    """Connect to an agent, send `initialize`, and yield the agent's `Remote`.

    The connection is closed at the end of the block. Raise `TransportError` if the agent cannot
    be reached or started, `UnsupportedVersion` if it speaks none of the clients' versions,
    `RequestError` if it refuses, `TimeoutError` if it does not respond in time.
    """
    handshake = ClientHandshake(
        transport, RolesByVersion(clients, "client"), limits=limits, observers=observers
    )
    try:
        timeout = asyncio.timeout(initialize_timeout_s)
        try:
            async with timeout:
                remote = await handshake.open()
        except AccordError as error:
            await handshake.explain(error)
            raise
        except TimeoutError:
            if not timeout.expired():
                raise
            within = f"within {initialize_timeout_s:g} s"
            late = TimeoutError(f"The agent did not respond to `initialize` {within}")
            await handshake.explain(late)
            raise late from None
        yield remote
    finally:
        await handshake.aclose()
