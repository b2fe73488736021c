"""The contract of transports, with what happens only on a network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from accord.errors import TransportError
from accord.testing import TransportContract
from event_loop import LIMIT_S
from remote.tcp_proxy import TcpProxy, tcp_proxy


class NetworkContract(TransportContract):
    """Subclass it as `TransportContract`; `pair` connects to `address`.

    With `is_kept_for_the_client` a server keeps a connection that was cut, until it is idle.
    """

    address: str
    is_kept_for_the_client: bool = False

    @asynccontextmanager
    async def through_a_proxy(self) -> AsyncGenerator[tuple[TcpProxy, Any]]:
        async with tcp_proxy(self.address) as (proxy, self.address), self.connected() as pair:
            yield proxy, pair

    async def test_frames_arrive_whole_however_the_network_divides_them(self) -> None:
        frames = [_frame(number, 300) for number in range(20)]
        async with self.through_a_proxy() as (proxy, pair):
            proxy.piece_bytes = 7
            for writer, heard in (pair.here, pair.heard_there), (pair.there, pair.heard_here):
                writer.write(frames)
                await heard.until(lambda heard=heard: len(heard.frames) >= len(frames))
                assert heard.frames == frames

    async def test_connection_that_is_cut_ends_once_with_an_error(self) -> None:
        async with self.through_a_proxy() as (proxy, pair):
            pair.there.write([_frame(1)])
            await pair.heard_here.until(lambda: bool(pair.heard_here.frames))
            proxy.refuses = True
            proxy.cut()
            ends = [pair.heard_here]
            if not self.is_kept_for_the_client:
                ends.append(pair.heard_there)
            for heard in ends:
                await heard.until(lambda heard=heard: heard.ended)
            for transport in (pair.here, pair.there):
                transport.write([_frame(2)])
            assert pair.heard_here.frames == [_frame(1)]
        for heard in ends:
            assert len(heard.ends) == 1
        assert isinstance(pair.heard_here.ends[0], TransportError)

    async def test_writer_is_not_congested_after_the_connection_is_cut(self) -> None:
        async with self.through_a_proxy() as (proxy, pair):
            proxy.silence()
            async with asyncio.timeout(LIMIT_S):
                while not pair.here.congested:
                    pair.here.write([_frame(1, 10_000)])
                    await asyncio.sleep(0)
            proxy.refuses = True
            proxy.cut()
            await pair.heard_here.until(lambda: pair.heard_here.ended)
            await pair.heard_here.until(lambda: not pair.here.congested)

    async def test_closing_does_not_wait_for_a_silent_network(self) -> None:
        async with self.through_a_proxy() as (proxy, pair):
            proxy.silence()
            for transport in (pair.here, pair.there):
                transport.write([_frame(1)])
            async with asyncio.timeout(LIMIT_S):
                await asyncio.gather(pair.here.aclose(), pair.there.aclose())


def _frame(number: int, size: int = 0) -> bytes:
    fill = "x" * size
    return f'{{"jsonrpc":"2.0","method":"_n","params":{{"n":{number},"fill":"{fill}"}}}}'.encode()
