"""Roles that serve every method of a version, and calls of each over a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct

from accord.roles import connect, serve
from accord.roles.binding import Role
from accord.transports.memory import pair
from accord.wire.protocol import Method, ProtocolSpec
from least import least
from raw_peer import QUICK


def everything(base: type[Role], seen: list[tuple[str, Any]], *, delayed: bool = False) -> Any:
    """Return a role object that serves all methods of its side with minimal results."""

    def handler(method: Method) -> Any:
        def handle(self: Any, params: Any, context: Any) -> Any:
            seen.append((method.call, params))
            return None if method.result is None else least(method.result)

        async def later(self: Any, params: Any, context: Any) -> Any:
            await asyncio.sleep(0)
            return handle(self, params, context)

        return later if delayed else handle

    methods = [m for m in base.spec.methods if m.to == base.side and m.call != "initialize"]
    return type("Everything", (base,), {m.call: handler(m) for m in methods})()


def served_by(spec: ProtocolSpec, side: str) -> list[Method]:
    return [m for m in spec.methods if m.to == side and m.call != "initialize"]


class Pair(Struct):
    """An agent and a client, each as a remote of the other."""

    agent: Any  # called by the client
    client: Any  # called by the agent
    frames: list[bytes | bytearray]  # sent or received by the client


@asynccontextmanager
async def joined(agent: Any, client: Any) -> AsyncGenerator[Pair]:
    """Connect an agent and a client, and record the frames after `initialize`."""
    here, there = pair()
    frames: list[bytes | bytearray] = []
    remotes: list[Any] = []
    remote_class = agent.remote_class

    def make_remote(connection: Any, initialized: Any) -> Any:
        remotes.append(remote_class(connection, initialized))
        return remotes[-1]

    agent.remote_class = make_remote
    serving = asyncio.create_task(serve(here, agent, limits=QUICK))
    observers = [lambda _way, frame: frames.append(frame)]
    async with connect(there, client, limits=QUICK, observers=observers) as remote:
        frames.clear()
        yield Pair(remote, remotes[-1], frames)
    await serving
