"""`accord ask` whose connection is cut."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

import accord
from remote.servers import hypercorn
from remote.tcp_proxy import tcp_proxy
from remote.test_reconnect import remembering
from requirement import requirement
from versions import only


@pytest.fixture(autouse=True)
def closing_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait long for a peer that does not read."""
    monkeypatch.setattr("accord.remote.asgi_socket.FLUSH_S", 1.0)
    monkeypatch.setattr("accord.transports.websocket_base.CLOSE_S", 1.0)


@requirement("R-WS-17")
@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_ask_reports_the_loss_and_how_the_turn_was_interrupted(scheme: str) -> None:
    agent: Any = remembering()
    async with (
        asyncio.timeout(40),
        hypercorn(accord.asgi(agent, insecure=True)) as address,
        tcp_proxy(address) as (proxy, through),
    ):
        asking = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "accord", "ask", "hold", "--quiet"),
            *("--agent", f"{scheme}://{through}"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        await agent.reached.wait()
        proxy.cut()
        _, told = await asking.communicate()
    lines = told.decode().splitlines()
    assert asking.returncode == 1
    assert lines[0].startswith("accord ask: ")
    assert lines[0].endswith("; connecting again")
    assert lines[1] == "accord ask: connected again"
    assert "the agent's history contains the prompt" in lines[2]


@requirement("R-WS-17")
@pytest.mark.parametrize(("scheme", "version"), [("ws", 1), ("ws", 2), ("http", 1)])
async def test_editor_survives_a_lost_connection_behind_a_bridge(scheme: str, version: int) -> None:
    agent: Any = remembering()
    told: list[str] = []
    async with (
        asyncio.timeout(40),
        hypercorn(accord.asgi(agent, insecure=True)) as address,
        tcp_proxy(address) as (proxy, through),
        accord.connect(
            [sys.executable, "-m", "accord", "bridge", f"{scheme}://{through}"],
            on_stderr=told.append,
            versions=only(version),
        ) as client,
    ):
        session = await client.new_session("/")
        turn = session.prompt("hold")
        async with turn:
            await agent.reached.wait()
            proxy.cut()
            with pytest.raises(accord.RequestError, match=r"lost|cut"):
                await turn.wait()
        async with session.prompt("hello") as turn:
            assert await turn.wait() == "end_turn"
        assert turn.text.endswith("Done")
    assert told[0].endswith("; connecting again")
    assert told[1] == "accord bridge: connected again"
