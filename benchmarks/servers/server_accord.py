"""Serves the agent of the benchmarks on the network, by Accord.

With a number, it serves as many connections in memory, and prints what one of them takes.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from machine import memory_mb
from servers.idle import INITIALIZE, SETTLE_S, WARM

sys.path.insert(0, str(Path(__file__).parent.parent / "agents"))

from accord.remote.access import Access, ConnectionLimits, Principal
from accord.remote.asgi import RemoteApp
from accord.remote.server import ServerOptions, Stop, run_server
from accord.transports.base import Frame, Receiver, Transport

Serve: TypeAlias = Callable[[Transport], Coroutine[Any, Any, object]]
MANY = 1_000_000


async def serve_on_network(serve: Serve) -> None:
    """Print the addresses, then serve until SIGTERM."""
    stop = Stop()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.request)

    def serve_one(transport: Transport, _principal: Principal) -> Coroutine[Any, Any, object]:
        return serve(transport)

    def listening(sockets: Sequence[socket.socket]) -> None:
        host, port = sockets[0].getsockname()
        address = f"{host}:{port}/acp"
        print(f"ws://{address} http://{address}", flush=True)

    limits = ConnectionLimits(connections=MANY, per_principal=MANY, starts_per_minute=MANY)
    app = RemoteApp(serve_one, Access(insecure=True), limits=limits)
    await run_server(app, ServerOptions(), listening, stop)


class Initialized(Transport):
    """A connection without a network: `initialize` arrives, and nothing more."""

    congested = False

    async def start(self, receiver: Receiver) -> None:
        asyncio.get_running_loop().call_soon(receiver.frames_received, [INITIALIZE])

    def write(self, frames: Sequence[Frame]) -> None:
        assert b"protocolVersion" in frames[0]

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


async def serve_in_memory(serve: Serve, count: int) -> None:
    """Print the memory of a connection without a network, after `initialize`."""
    tasks: list[Any] = []

    async def connect(number: int) -> None:
        tasks.extend(asyncio.ensure_future(serve(Initialized())) for _ in range(number))
        await asyncio.sleep(SETTLE_S)

    await connect(WARM)
    before = memory_mb()
    await connect(count)
    print("RESULT " + json.dumps({"kb": (memory_mb() - before) * 1024 / count}), flush=True)
    os._exit(0)


def main(serve: Serve) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if len(sys.argv) > 1:
        asyncio.run(serve_in_memory(serve, int(sys.argv[1])))
    else:
        asyncio.run(serve_on_network(serve))


if __name__ == "__main__":
    from agent_accord import Bench

    from accord.roles.handshake import serve as serve_role

    main(lambda transport: serve_role(transport, Bench()))
