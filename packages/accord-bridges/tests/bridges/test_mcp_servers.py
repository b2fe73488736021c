"""MCP servers of the client that a bridge opens with the classes of its framework."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from accord import McpServerStdio
from accord_bridges import bridge
from accord_bridges.bridge import BridgedAgent, McpServer
from accord_bridges.run import Run
from accord_bridges.testing import BridgeContract

pytestmark = pytest.mark.timeout(60)


class Opening(BridgedAgent):
    """An agent that says which MCP servers it has; each is a name."""

    mcp_transports = frozenset({"stdio"})

    def __init__(self) -> None:
        super().__init__(self)
        self.log: list[str] = []
        self.both = asyncio.Barrier(2)

    def make(self, server: McpServer, name: str) -> AbstractAsyncContextManager[str]:
        if server.name == "no library":
            raise ImportError("pip install it")

        @asynccontextmanager
        async def opened() -> AsyncGenerator[str, None]:
            self.log.append(f"start {name}")
            if server.name == "hangs":
                await asyncio.get_running_loop().create_future()
            await self.both.wait()  # that is, with another one
            try:
                yield name
            finally:
                self.log.append(f"end {name}")

        return opened()

    async def answer(self, run: Run) -> None:
        await run.say(", ".join(await self.open_mcp_servers(run, self.make)))


async def test_servers_start_at_once_and_others_are_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bridge, "_START_S", 0.5)
    agent = Opening()
    async with BridgeContract().connected([], agent=agent) as client:
        names = ("my files", "no library", "my-files", "hangs")
        session: Any = await client.agent.new_session(
            client.folder, mcp_servers=[McpServerStdio(name, "/none") for name in names]
        )
        for _ in range(2):
            events: list[Any] = []
            async with session.prompt("go") as turn:
                events += [event async for event in turn]
            assert turn.text == "my_files, my_files_"
            told = "\n".join(f"{event!r}" for event in events)
            assert "The MCP server no library is not used" in told
            assert "pip install it" in told
            assert "The MCP server hangs is not used" in told
            assert "Not started after 0.5 s" in told
        assert sorted(agent.log) == ["start hangs", "start my_files", "start my_files_"]
        await session.close()
        assert sorted(agent.log)[:2] == ["end my_files", "end my_files_"]
