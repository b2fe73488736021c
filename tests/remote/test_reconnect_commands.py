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

pytestmark = pytest.mark.usefixtures("closing_is_quick")


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
