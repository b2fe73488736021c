"""Back-pressure through a chain of programs: nothing piles up between its ends."""

from __future__ import annotations

import asyncio
import gc
import sys
import tracemalloc
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import Raw

from accord import Text, asgi, chain, component, connect
from accord.errors import RequestError
from accord.proxy.conductor import Component, conduct, serve_stages
from accord.proxy.handlers import NotificationHandler, OrderedStage
from accord.proxy.stage import Direction, Params, Stage
from accord.script_agent.agent import ScriptAgent
from accord.transports.base import HIGH_BYTES
from accord.transports.memory import ServedTransport, pair
from proxy.ends import Ends
from remote.servers import listener
from requirement import requirement

TOKEN = "a-token-for-this-test"
INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}'
LAST = b'{"jsonrpc":"2.0","method":"last","params":{}}'
UPDATE = b'{"jsonrpc":"2.0","method":"session/update","params":["%b"]}' % (b"x" * 1000)


def _program(make_stage: Callable[[], Stage]) -> Component:
    """Return a proxy with a connection of its own."""
    return Component(
        "proxy",
        open=lambda: ServedTransport(lambda transport: serve_stages([make_stage()], transport)),
    )


@asynccontextmanager
async def _conducted(components: Sequence[Component]) -> AsyncGenerator[Ends]:
    client, left = pair()
    right, agent = pair()
    ends = Ends(client, agent)
    await client.start(ends.at_client)
    await agent.start(ends.at_agent)
    parts = [*components, Component("agent", open=lambda: right)]
    running = asyncio.ensure_future(conduct(parts, left))
    try:
        client.write([INITIALIZE])
        await ends.agent_has(1)
        agent.write([b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'])
        await ends.client_has(1)
        yield ends
    finally:
        await agent.aclose()
        await ends.at_client.until(lambda: ends.at_client.ended)
        await client.aclose()
        async with asyncio.timeout(10):
            await running


@requirement("R-PROXY-19")
async def test_client_that_does_not_read_stops_the_agent_at_the_end_of_a_chain() -> None:
    async with _conducted([_program(Stage) for _ in range(3)]) as ends:
        ends.client.pause_reading()
        written = 0
        while not ends.agent.congested:
            ends.agent.write([UPDATE])
            written += 1
            await asyncio.sleep(0)
            assert written * len(UPDATE) < 10 * HIGH_BYTES
        # What was on its way arrives, and the agent stays stopped.
        for _ in range(50):
            await asyncio.sleep(0)
        assert ends.agent.congested
        # The other direction still works.
        ends.client.write([b'{"jsonrpc":"2.0","method":"session/cancel"}'])
        await ends.agent_has(2)
        ends.client.resume_reading()
        assert len(await ends.client_has(written + 1)) == written + 1


class _Hangs(OrderedStage):
    """Handles the first update until it may go on."""

    may_go_on: asyncio.Event

    def notification_handler(self, to: Direction, method: str) -> NotificationHandler | None:
        return self._update if method == "session/update" else None

    async def _update(self, method: str, params: Params) -> None:
        await self.may_go_on.wait()
        self.client.notify(method, params)


@pytest.mark.parametrize("is_program", [True, False])
@requirement("R-PROXY-19")
async def test_update_handler_that_hangs_does_not_hold_a_cancellation(is_program: bool) -> None:
    """One connection carries both directions of a program: it is read although a lane is full."""
    stage = _Hangs()
    stage.may_go_on = asyncio.Event()
    part = _program(lambda: stage) if is_program else Component("p", make_stage=lambda: stage)
    count = 3_000  # of 1 KB each
    async with _conducted([part]) as ends:
        ends.agent.write([UPDATE] * count)
        for _ in range(100):
            await asyncio.sleep(0)
        ends.client.write([b'{"jsonrpc":"2.0","method":"session/cancel"}'])
        assert b"session/cancel" in (await ends.agent_has(2))[1]
        stage.may_go_on.set()
        assert len(await ends.client_has(count + 1)) == count + 1


class _Floods(Stage):
    """Sends many messages of its own to the client, without waiting for room."""

    def notification_from_client(self, method: str, params: Params) -> None:
        for _ in range(2000):
            self.client.notify("flood", Raw(b'["' + b"y" * 10_000 + b'"]'))


@requirement("R-PROXY-19")
async def test_proxy_that_floods_is_not_read_above_a_bound() -> None:
    async with _conducted([_program(_Floods)]) as ends:
        ends.client.pause_reading()
        ends.client.write([b'{"jsonrpc":"2.0","method":"go"}'])
        for _ in range(200):
            await asyncio.sleep(0)
        ends.client.resume_reading()
        assert len(await ends.client_has(2001)) == 2001


async def test_memory_does_not_depend_on_the_number_of_updates() -> None:
    async with _conducted([_program(Stage), Component("stage", make_stage=Stage)]) as ends:

        async def rounds(number: int) -> int:
            for _ in range(number):
                ends.agent.write([UPDATE] * 100 + [LAST])
                await ends.at_client.until(lambda: ends.at_client.frames[-1:] == [LAST])
                ends.at_client.frames.clear()
            gc.collect()  # takes long in a process that has run many tests
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            before = await rounds(2)
            after = await rounds(20)
        finally:
            tracemalloc.stop()
        assert after - before < 20_000


@requirement("R-PROXY-26")
async def test_component_may_be_remote() -> None:
    program = str(Path(__file__).parent / "programs" / "pass_proxy.py")
    async with (
        asyncio.timeout(30),
        listener(asgi([sys.executable, program], token=TOKEN)) as proxy,
        listener(asgi(ScriptAgent, token=TOKEN)) as last,
    ):
        remote_proxy = component(f"ws://{proxy}/acp", token=TOKEN)
        for address in (f"ws://{last}/acp", f"http://{last}/acp"):
            parts = chain(remote_proxy, component(address, token=TOKEN))
            async with connect(parts, versions=[1]) as remote:
                session = await remote.new_session(".")
                async with session.prompt("stream 2") as turn:
                    texts = [event.text async for event in turn if isinstance(event, Text)]
                assert texts == ["1 ", "2 "]
        with pytest.raises(RequestError, match="a proxy needs ws://"):
            async with connect(chain(f"http://{proxy}/acp", ScriptAgent)):
                pass
