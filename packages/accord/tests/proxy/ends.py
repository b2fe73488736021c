"""A client and an agent that write frames by hand, for tests of what is between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from accord.proxy.conductor import join
from accord.proxy.stage import Stage
from accord.testing import Recorder
from accord.transports.base import Transport
from accord.transports.memory import MemoryTransport, pair


class Ends:
    """The two ends, and what they have received."""

    def __init__(self, client: MemoryTransport, agent: MemoryTransport) -> None:
        self.client, self.agent = client, agent
        self.at_client, self.at_agent = Recorder(), Recorder()

    async def client_has(self, count: int) -> list[bytes]:
        """Wait until the client has received this many frames; return all."""
        await self.at_client.until(lambda: len(self.at_client.frames) >= count)
        return [bytes(frame) for frame in self.at_client.frames]

    async def agent_has(self, count: int) -> list[bytes]:
        """Wait until the agent has received this many frames; return all."""
        await self.at_agent.until(lambda: len(self.at_agent.frames) >= count)
        return [bytes(frame) for frame in self.at_agent.frames]


@asynccontextmanager
async def joined(*stages: Stage) -> AsyncGenerator[Ends]:
    """Connect both ends by stages in this process."""
    async with between(lambda left, right: join(left, stages, right)) as ends:
        yield ends


@asynccontextmanager
async def between(
    run: Callable[[Transport, Transport], Coroutine[Any, Any, Any]],
) -> AsyncGenerator[Ends]:
    """Connect both ends by `run(left, right)`, a coroutine that ends when they disconnect."""
    client, left = pair()
    right, agent = pair()
    ends = Ends(client, agent)
    await client.start(ends.at_client)
    await agent.start(ends.at_agent)
    running = asyncio.ensure_future(run(left, right))
    try:
        yield ends
    finally:
        await client.aclose()
        await agent.aclose()
        async with asyncio.timeout(10):
            await running
