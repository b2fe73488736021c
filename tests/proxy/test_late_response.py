"""A component that answers after another one has ended is not to blame."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from accord.proxy.conductor import conduct
from accord.proxy.parts import Component
from accord.testing import Recorder
from accord.transports.memory import MemoryTransport, pair

PARAMS = {"protocolVersion": 1, "clientCapabilities": {}}


class _End:
    """A connection of a conductor: the test writes to it, and says when it is closed."""

    def __init__(self) -> None:
        self.here, self.there = pair()
        self.received = Recorder()
        self.may_close = asyncio.Event()
        self.may_close.set()
        self._close = self.there.aclose
        self.there.aclose = self._close_later

    async def _close_later(self) -> None:
        await self.may_close.wait()
        await self._close()

    async def open(self) -> MemoryTransport:
        await self.here.start(self.received)
        return self.there

    def write(self, **message: Any) -> None:
        self.here.write([json.dumps({"jsonrpc": "2.0", **message}).encode()])

    async def until(self, count: int) -> dict[str, Any]:
        """Return the frame with this number."""
        await self.received.until(lambda: len(self.received.frames) >= count)
        return json.loads(self.received.frames[count - 1])


async def test_late_response_to_a_request_that_has_failed_is_dropped_silently(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client, proxy, agent = _End(), _End(), _End()
    parts = [Component("proxy", open=proxy.open), Component("agent", open=agent.open)]
    conducting = asyncio.ensure_future(conduct(parts, await client.open()))
    async with asyncio.timeout(10):
        client.write(id=1, method="initialize", params=PARAMS)
        await proxy.until(1)
        inner = {"method": "initialize", "params": PARAMS}
        proxy.write(id="i", method="proxy/successor", params=inner)
        await agent.until(1)
        proxy.may_close.clear()
        await agent.here.aclose()
        failed = await proxy.until(2)
        assert failed["error"]["data"] == {"component": "agent"}
        proxy.write(id=0, error=failed["error"])  # to `proxy/initialize`
        proxy.write(id="after", method="proxy/successor", params=inner)
        assert (await proxy.until(3))["id"] == "after"
        proxy.may_close.set()
        await conducting
    for end in (client, proxy):
        await end.here.aclose()
    assert (await client.until(1))["error"]["data"] == {"component": "agent"}
    assert [one.message for one in caplog.records if one.levelno >= logging.WARNING] == []
