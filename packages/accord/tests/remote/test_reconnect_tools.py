"""Tools of a client, given over ACP, after the connection was lost and established again."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("mcp", reason="the library `mcp` is not installed")

import accord
from accord import MemoryStore, Turn
from accord.transports.registry import Reconnect
from raw_mcp_provider import UsesMcp
from remote.servers import hypercorn
from remote.tcp_proxy import tcp_proxy
from remote.test_reconnect import Changes
from requirement import requirement
from versions import only

pytestmark = pytest.mark.usefixtures("closing_is_quick")


@pytest.mark.parametrize(("scheme", "version"), [("ws", 1), ("http", 2)])
@requirement("R-MOA-08", "R-WS-17")
async def test_tools_are_served_on_the_next_connection(scheme: str, version: int) -> None:
    called: list[str] = []

    async def explain(term: str) -> str:
        """What the team means by a term."""
        called.append(term)
        return f"{term} is a word"

    async def work(turn: Turn) -> None:
        servers = await turn.session.connect_mcp()
        assert not servers.failed, servers.failed
        result = await servers["tools"].call("explain", {"term": turn.text})
        await turn.say(getattr(result.content[0], "text", ""))

    agent = UsesMcp(work)
    agent.store = MemoryStore()
    changes = Changes()
    settings = Reconnect(attempts=5, wait_s=0.01, max_wait_s=0.05, on_change=changes)
    async with (
        asyncio.timeout(30),
        hypercorn(accord.asgi(agent, insecure=True)) as address,
        tcp_proxy(address) as (proxy, url),
        accord.connect(f"{scheme}://{url}", reconnect=settings, versions=only(version)) as client,
    ):
        session = await client.new_session("/", tools=[explain])
        for term in ("lane", "tree"):
            async with session.prompt(term) as turn:
                await turn.wait()
            assert turn.text == f"{term} is a word"
            if term == "lane":
                proxy.cut()
                await changes.connected.wait()
    assert called == ["lane", "tree"]
