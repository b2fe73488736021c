"""Watches the connections of a server, and ends them when the server goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from accord.errors import TransportError
from accord.remote.access import Principal
from accord.remote.monitored import GOING_AWAY_TEXT, MonitoredTransport, Observer
from accord.remote.network_transport import GOING_AWAY, INTERNAL, NetworkTransport
from accord.transports.base import Transport

FAILED_TEXT = "internal error"
END_S = 8.0  # for agents to end after their connection; processes are killed within it

# Serves one connection until it ends.
ServeConnection: TypeAlias = Callable[[Transport, Principal], Coroutine[Any, Any, object]]


class Monitor:
    """Serves connections by `serve`, and watches them; `observers` are called about each."""

    def __init__(
        self,
        serve: ServeConnection,
        *,
        idle_s: float = 0.0,
        observers: Sequence[Observer] = (),
    ) -> None:
        self._serve = serve
        self._idle_s = idle_s
        self._observers = observers
        self._connections: set[MonitoredTransport] = set()
        self._changed = asyncio.Event()
        self.draining: bool = False

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    @property
    def running_turns(self) -> int:
        """The number of turns that are running."""
        return sum(connection.running_turns for connection in self._connections)

    async def serve(
        self,
        transport: NetworkTransport,
        principal: Principal,
        *,
        id: str,  # noqa: A002  # the word of the protocol: Acp-Connection-Id
        kind: str,
    ) -> None:
        """Serve a connection until it ends; `kind` is the name of its transport."""
        connection = MonitoredTransport(
            transport,
            self._observers,
            id=id,
            kind=kind,
            principal=principal.shown,
            idle_s=self._idle_s,
        )
        self._connections.add(connection)
        for observer in self._observers:
            observer.connection_opened(connection)
        if self.draining:  # since the connection was admitted
            connection.drain()
        try:
            await self._serve(connection, principal)
        except TransportError:
            raise
        except Exception:
            transport.close_code, transport.close_reason = INTERNAL, FAILED_TEXT  # R-WS-16
            raise
        finally:
            await connection.aclose()
            self._connections.discard(connection)
            self._changed.set()
            connection.closed()
            for observer in self._observers:
                observer.connection_closed(connection)

    async def drain(self, timeout_s: float) -> None:
        """Let running turns end for at most `timeout_s` seconds, then end all connections.

        New turns are refused. Each client is disconnected as soon as it has no running turn.
        """
        self.draining = True
        for connection in list(self._connections):
            connection.drain()
        await self._wait_until_none(timeout_s)
        await self.disconnect(END_S)

    async def disconnect(self, timeout_s: float) -> None:
        """End all connections now, and wait for their agents at most `timeout_s` seconds."""
        self.draining = True
        for connection in list(self._connections):
            connection.end(GOING_AWAY, GOING_AWAY_TEXT)
        await self._wait_until_none(timeout_s)

    async def _wait_until_none(self, timeout_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._connections:
                    self._changed.clear()
                    await self._changed.wait()
