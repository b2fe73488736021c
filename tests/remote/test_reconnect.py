"""A client that reconnects: over real sockets, through a proxy that cuts them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import accord
from accord import Agent, MemoryStore, Turn
from accord.client.reconnect import ConnectionChange, Reconnect
from remote.servers import hypercorn
from remote.tcp_proxy import TcpProxy, tcp_proxy
from requirement import requirement

pytestmark = pytest.mark.usefixtures("closing_is_quick")

VERSIONS = pytest.mark.parametrize("version", [1, 2])


class Remembers(Agent):
    """Answers each prompt with some words; `tool` makes a tool call."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.proceed = asyncio.Event()

    async def prompt(self, turn: Turn) -> None:
        if turn.text == "hold":
            await turn.say("before ")
            self.reached.set()
            await self.proceed.wait()
            await turn.say("after")
            return
        await turn.think("a thought")
        for word in ("Hello ", "and ", "welcome"):
            await turn.say(word)
        async with turn.tool("Look", kind="read") as call:
            await call.add_content("found")
        await turn.say("Done")


def remembering() -> Agent:
    agent = Remembers()
    agent.store = MemoryStore()
    return agent


class Changes(list[ConnectionChange]):
    """Records the changes of a connection."""

    def __init__(self) -> None:
        super().__init__()
        self.connected = asyncio.Event()

    def __call__(self, change: ConnectionChange) -> None:
        self.append(change)
        if change.state == "connected":
            self.connected.set()

    @property
    def states(self) -> list[str]:
        return [change.state for change in self]


@asynccontextmanager
async def connected(
    agent: Any, changes: Changes | None = None, attempts: int = 5, **options: Any
) -> AsyncGenerator[tuple[accord.ConnectedAgent, TcpProxy]]:
    settings = Reconnect(attempts=attempts, wait_s=0.01, max_wait_s=0.05, on_change=changes)
    async with (
        hypercorn(accord.asgi(agent, insecure=True)) as address,
        tcp_proxy(address) as (proxy, url),
        accord.connect(f"ws://{url}", reconnect=settings, **options) as client,
    ):
        yield client, proxy


async def ask(session: accord.ClientSession, text: str = "hello") -> list[Any]:
    async with session.prompt(text) as turn:
        return [event async for event in turn]


@requirement("R-WS-17")
@VERSIONS
async def test_session_continues_after_a_cut_between_turns(version: int) -> None:
    changes = Changes()
    async with connected(remembering(), changes, versions=(version,)) as (client, proxy):
        session = await client.new_session("/")
        await ask(session)
        items = list(session.transcript.items)
        proxy.cut()
        await changes.connected.wait()
        assert session.transcript.items == items
        await ask(session)
        assert session.transcript.text.count("Done") == 2
        assert changes.states == ["reconnecting", "connected"]
        assert proxy.accepted == 2
