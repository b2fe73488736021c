"""The WebSocket transports keep the contract of transports, over a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio

from accord.errors import ConnectionLost
from accord.remote.access import ConnectionLimits
from accord.remote.asgi_socket import handshake_of
from accord.transports.base import Transport
from accord.transports.websocket import WebSocketTransport, websocket
from accord.transports.websocket_base import FrameConnection
from remote.network_contract import NetworkContract
from remote.servers import hypercorn, listener
from requirement import requirement


@requirement("R-WS-08")
@pytest.mark.usefixtures("closing_is_quick")
class TestWebSocket(NetworkContract):
    serve = staticmethod(hypercorn)

    @pytest_asyncio.fixture(autouse=True)
    async def server(self) -> AsyncGenerator[None, None]:
        self.accepted: asyncio.Queue[Transport] = asyncio.Queue()
        self.over = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            handshake = await handshake_of(
                scope, receive, send, self.frame_bytes, ConnectionLimits()
            )
            await handshake.accept([])
            self.accepted.put_nowait(handshake.transport)
            await self.over.wait()

        self.frame_bytes = 0
        async with self.serve(app) as address:
            self.address = address
            yield
            self.over.set()

    async def pair(self, frame_bytes: int) -> tuple[Transport, Transport]:
        self.frame_bytes = frame_bytes
        here = websocket(f"ws://{self.address}", frame_bytes=frame_bytes)()
        assert isinstance(here, WebSocketTransport)
        connection = await here._open()  # `start` returns before the server has accepted

        async def opened() -> FrameConnection:
            return connection

        here._open = opened
        return here, await self.accepted.get()

    async def test_frame_over_the_limit_is_rejected_and_the_next_arrives(self) -> None:
        """A WebSocket connection ends instead (R-WS-13)."""
        async with self.connected(1000) as pair:
            pair.there.write([b"{}", b"x" * 3000])
            heard = pair.heard_here
            await heard.until(lambda: heard.ended)
            assert heard.frames == [b"{}"]
            assert isinstance(heard.ends[0], ConnectionLost)


class TestListener(TestWebSocket):
    """The same over the listener of `accord serve`."""

    serve = staticmethod(listener)
