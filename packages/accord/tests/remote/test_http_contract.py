"""The streamable HTTP transports keep the contract of transports, over a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
import pytest_asyncio

from accord.errors import ConnectionClosed
from accord.remote.access import Access, HttpLimits
from accord.remote.asgi import RemoteApp
from accord.testing import Recorder
from accord.transports.base import Frame, Receiver, Transport
from accord.transports.http import HttpTransport, http
from accord.transports.registry import RemoteOptions
from remote.http_fake import INITIALIZE, INITIALIZED
from remote.network_contract import NetworkContract
from remote.servers import hypercorn


class Begun(Transport):
    """A transport that was started for `initialize`, and continues with another receiver."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.frame_bytes = inner.frame_bytes
        self.heard = Recorder()
        self._receiver: Receiver = self.heard
        self._closed = False

    async def begin(self) -> None:
        await self.inner.start(self)

    async def start(self, receiver: Receiver) -> None:
        if self._closed:
            raise ConnectionClosed("The transport was closed")
        self._receiver = receiver

    def frames_received(self, frames: Sequence[Frame]) -> None:
        self._receiver.frames_received(frames)

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        self._receiver.frame_refused(limit, head)

    def eof_received(self, error: Exception | None) -> None:
        self._receiver.eof_received(error)

    def writable(self) -> None:
        self._receiver.writable()

    def write(self, frames: Sequence[Frame]) -> None:
        self.inner.write(frames)

    @property
    def congested(self) -> bool:
        return self.inner.congested

    def pause_reading(self) -> None:
        self.inner.pause_reading()

    def resume_reading(self) -> None:
        self.inner.resume_reading()

    async def aclose(self) -> None:
        self._closed = True
        await self.inner.aclose()


class HttpContract(NetworkContract):
    """The client and the server; the frames of the contract have no session."""

    options = RemoteOptions()
    burst = 100  # each frame is a request
    is_kept_for_the_client = True

    @pytest_asyncio.fixture(autouse=True)
    async def server(self, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[None, None]:
        monkeypatch.setattr("accord.transports.http.FLUSH_S", 0.5)
        self.accepted: asyncio.Queue[Transport] = asyncio.Queue()
        self.over = asyncio.Event()
        self.app: Any = None

        async def serve(transport: Transport, _principal: object) -> None:
            self.accepted.put_nowait(transport)
            await self.over.wait()

        def make_app(frame_bytes: int) -> RemoteApp:
            return RemoteApp(
                serve,
                Access(insecure=True),
                frame_bytes=frame_bytes,
                http_limits=HttpLimits(body_bytes=frame_bytes),
            )

        self.make_app = make_app

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await self.app(scope, receive, send)

        async with hypercorn(app, keep_alive_max_requests=1_000_000) as address:
            self.address = address
            yield
            self.over.set()

    async def pair(self, frame_bytes: int) -> tuple[Transport, Transport]:
        self.app = self.make_app(frame_bytes)
        inner = http(f"http://{self.address}", self.options, frame_bytes=frame_bytes)()
        assert isinstance(inner, Transport)
        here = Begun(inner)
        await here.begin()
        here.write([INITIALIZE])
        there = Begun(await self.accepted.get())
        await there.begin()
        await there.heard.until(lambda: bool(there.heard.frames))
        there.write([INITIALIZED])
        await here.heard.until(lambda: bool(here.heard.frames))
        return here, there


class TestHttp(HttpContract):
    """Over HTTP/1.1."""


@pytest.mark.slow
class TestHttp2(HttpContract):
    """Over HTTP/2."""

    options = RemoteOptions(h2c=True)


async def test_closed_transport_does_not_start() -> None:
    transport = http("http://127.0.0.1:1")()
    assert isinstance(transport, HttpTransport)
    await transport.aclose()
    with pytest.raises(ConnectionClosed):
        await transport.start(Recorder())
