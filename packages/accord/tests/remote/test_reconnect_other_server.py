"""A client that reconnects while another server answers its requests, as behind a balancer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

import accord
from accord import Agent, MemoryStore, SessionStore, Turn
from accord.remote.access import Receive, Scope, Send
from accord.transports.registry import Reconnect
from remote.servers import hypercorn
from versions import only

pytestmark = pytest.mark.usefixtures("closing_is_quick")


class Talks(Agent):
    """Says a word, and waits if the prompt is "wait"."""

    def __init__(self, store: SessionStore) -> None:
        self.store = store
        self.waits = asyncio.Event()

    async def prompt(self, turn: Turn) -> None:
        await turn.say("said ")
        if turn.text == "wait":
            self.waits.set()
            await asyncio.Event().wait()


class Balancer:
    """Passes requests to the first server, and after `switch` to the second one.

    The event streams of the first server then end as if they were complete.
    """

    def __init__(self, servers: list[Any]) -> None:
        self._servers = servers
        self._streams: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        server = self._servers[0]
        if scope["type"] != "http" or scope["method"] != "GET":
            await server(scope, receive, send)
            return
        stream = asyncio.ensure_future(server(scope, receive, send))
        self._streams.add(stream)
        try:
            await asyncio.wait([stream])
        finally:
            self._streams.discard(stream)
            stream.cancel()
        if stream.cancelled():
            with suppress(RuntimeError):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    def switch(self) -> None:
        """End the first server."""
        del self._servers[0]
        for stream in self._streams:
            stream.cancel()


@asynccontextmanager
async def two_servers() -> AsyncGenerator[tuple[Talks, Balancer, str], None]:
    store = MemoryStore()
    first = Talks(store)
    servers = [accord.asgi(agent, insecure=True) for agent in (first, Talks(store))]
    balancer = Balancer(servers)
    async with hypercorn(balancer) as address:
        yield first, balancer, f"http://{address}"


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("text", ["hello", "wait"])
async def test_session_continues_on_a_server_that_does_not_know_the_connection(
    text: str, version: int
) -> None:
    settings = Reconnect(attempts=10, wait_s=0.01, max_wait_s=0.05)
    async with (
        asyncio.timeout(30),
        two_servers() as (first, balancer, url),
        accord.connect(url, reconnect=settings, versions=only(version)) as agent,
    ):
        session = await agent.new_session("/")
        texts = ""
        with suppress(accord.TurnInterrupted):
            async with session.prompt(text) as turn:
                async for event in turn:
                    if isinstance(event, accord.Text):
                        texts += event.text
                        if text == "wait":
                            await first.waits.wait()
                            balancer.switch()
        assert texts == "said "
        if text == "hello":
            balancer.switch()
        for _ in range(20):  # the first ones may meet the end of the connection
            with suppress(accord.TurnInterrupted):
                async with session.prompt("again") as turn:
                    await turn.wait()
                break
        assert turn.stop_reason == "end_turn"
        assert session.transcript.text.count("said") == 2
