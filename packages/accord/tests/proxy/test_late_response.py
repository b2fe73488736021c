"""Requests and responses after a component of a chain has ended: who gets which error."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from msgspec import UNSET

from accord.errors import InternalError
from accord.proxy import hop as hop_module
from accord.proxy.conductor import AgentEnd, Component, conduct
from accord.proxy.hop import Hops
from accord.proxy.stage import Direction, RawRequest, RawResponse
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


class _Sender:
    """Sends requests to a peer, and keeps the texts of their errors."""

    def __init__(self, end: AgentEnd) -> None:
        self.errors: list[str] = []
        self._end = end

    def send(self, *, again: bool = False) -> None:
        def answered(response: RawResponse) -> None:
            error = response.request_error()
            assert error is not None
            self.errors.append(error.text)
            if again:
                self.send()

        request = RawRequest("m", UNSET, answered)
        self._end.send_request(request, "m", UNSET, Direction.TO_AGENT)


async def test_request_that_is_sent_again_when_it_fails_is_not_sent_to_the_peer() -> None:
    here, there = pair()
    received = Recorder()
    await here.start(received)
    hops = Hops(lambda _hop, _error: None)
    end = AgentEnd("agent", there, hops)
    await end.start()
    sender = _Sender(end)
    sender.send(again=True)
    end.fail_calls(lambda: InternalError("another one has ended"))
    assert sender.errors == ["another one has ended"] * 2
    await end.aclose()
    async with asyncio.timeout(10):
        await received.until(lambda: received.ended)
    assert len(received.frames) == 1
    await here.aclose()


async def test_not_every_request_waits_for_the_reason_why_a_peer_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hop_module, "_MAX_UNSENDABLE", 2)
    here, there = pair()
    end = AgentEnd("agent", there, Hops(lambda _hop, _error: None))
    end.has_ended = True
    sender = _Sender(end)
    for _ in range(4):
        sender.send()
    assert sender.errors == ["agent has ended"] * 2
    end.refuse_calls(lambda: InternalError("exited with status 3"))
    assert sender.errors[2:] == ["exited with status 3"] * 2
    await end.aclose()
    await here.aclose()
