"""A proxy program: one connection to the conductor carries both neighbours, in each dialect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from accord.proxy.conductor import serve_stages
from accord.proxy.stage import Stage
from accord.testing import Recorder
from accord.transports.memory import MemoryTransport, pair
from requirement import requirement

NAMES = {
    "acp": ("proxy/initialize", "proxy/successor", "proxy/successor"),
    "rust": ("_proxy/initialize", "_proxy/successor", "_proxy/successor"),
    "thinkwell": ("initialize", "_proxy/successor/request", "_proxy/successor/notification"),
}


class _Conductor:
    def __init__(self, transport: MemoryTransport, dialect: str) -> None:
        self.transport = transport
        self.received = Recorder()
        self.initialize, self.request, self.notification = NAMES[dialect]

    async def has(self, count: int) -> list[bytes]:
        await self.received.until(lambda: len(self.received.frames) >= count)
        return [bytes(frame) for frame in self.received.frames]

    def write(self, *frames: bytes) -> None:
        self.transport.write(frames)


@asynccontextmanager
async def _proxy(dialect: str) -> AsyncGenerator[_Conductor]:
    here, there = pair()
    conductor = _Conductor(here, dialect)
    await here.start(conductor.received)
    serving = asyncio.ensure_future(serve_stages([Stage()], there))
    try:
        yield conductor
    finally:
        await here.aclose()
        async with asyncio.timeout(10):
            await serving


@pytest.mark.parametrize("dialect", NAMES)
@requirement("R-PROXY-03", "R-PROXY-13", "R-PROXY-15", "R-PROXY-16")
async def test_proxy_speaks_the_dialect_of_its_conductor(dialect: str) -> None:
    # Thinkwell marks the params and the result, and needs the mark for the next proxy.
    is_marked = dialect == "thinkwell"
    marked = b',"_meta":{"proxy":true}' if is_marked else b""
    async with _proxy(dialect) as conductor:
        params = b'{"protocolVersion":1,"x":1.0'
        conductor.write(
            b'{"jsonrpc":"2.0","id":"i","method":"%b","params":%b%b}}'
            % (conductor.initialize.encode(), params, marked)
        )
        asked = json.loads((await conductor.has(1))[0])
        assert asked["method"] == conductor.request
        assert asked["params"] == {
            "method": "initialize",
            "params": {"protocolVersion": 1, "x": 1.0}
            | ({"_meta": {"proxy": True}} if is_marked else {}),
        }
        conductor.write(
            b'{"jsonrpc":"2.0","id":%d,"result":{"protocolVersion":1}}' % asked["id"],
            b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}',
            b'{"jsonrpc":"2.0","method":"%b","params":{"_meta":{"hop":1},'
            b'"method":"session/update","params":{"_meta" : 1.0}}}'
            % conductor.notification.encode(),
            b'{"jsonrpc":"2.0","id":"w","method":"%b","params":'
            b'{"method":"fs/read_text_file","params":null}}' % conductor.request.encode(),
        )
        frames = (await conductor.has(5))[1:]
        assert frames == [
            b'{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":1%b}}' % marked,
            b'{"jsonrpc":"2.0","method":"%b","params":{"method":"session/cancel",'
            b'"params":{"sessionId":"s"}}}' % conductor.notification.encode(),
            b'{"jsonrpc":"2.0","method":"session/update","params":{"_meta" : 1.0}}',
            b'{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file"}',
        ]


@pytest.mark.parametrize("form", ["bare", "wrapped"])
@requirement("R-REQCAN-11", "R-PROXY-21")
async def test_cancel_of_a_wrapped_request_is_understood_in_both_forms(form: str) -> None:
    async with _proxy("acp") as conductor:
        conductor.write(
            b'{"jsonrpc":"2.0","id":"w","method":"proxy/successor","params":{"method":"ask"}}'
        )
        await conductor.has(1)
        cancel = b'"method":"$/cancel_request","params":{"requestId":"w"}'
        conductor.write(
            b'{"jsonrpc":"2.0",%b}' % cancel
            if form == "bare"
            else b'{"jsonrpc":"2.0","method":"proxy/successor","params":{%b}}' % cancel
        )
        assert (await conductor.has(2))[1] == (
            b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":0}}'
        )


@requirement("R-PROXY-03", "R-PROXY-15")
async def test_proxy_refuses_to_be_the_agent_and_malformed_envelopes() -> None:
    async with _proxy("acp") as conductor:
        conductor.write(
            b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}',
            b'{"jsonrpc":"2.0","id":2,"method":"proxy/successor","params":{"method":7}}',
            b'{"jsonrpc":"2.0","id":3,"method":"proxy/successor","params":'
            b'{"method":"x","params":"text"}}',
            b'{"jsonrpc":"2.0","id":4,"method":"proxy/successor"}',
        )
        codes = [json.loads(frame)["error"]["code"] for frame in await conductor.has(4)]
        assert codes == [-32600, -32602, -32602, -32602]
