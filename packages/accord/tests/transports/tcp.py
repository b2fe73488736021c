"""A transport in one file, as an extension would write it: length-prefixed messages over TCP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from accord.remote.asgi_socket import MessageTransport
from accord.transports.base import FRAME_BYTES, Frame, Transport, TransportFactory
from accord.transports.registry import RemoteOptions


class TcpTransport(MessageTransport):
    """Connects to an address, or uses an accepted connection."""

    def __init__(
        self,
        host: str = "",
        port: int = 0,
        *,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None,
        frame_bytes: int = FRAME_BYTES,
    ) -> None:
        super().__init__(frame_bytes=frame_bytes)
        self._address = host, port
        self._streams = streams

    async def _open(self) -> None:
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address)
        self._input, self._output = self._streams

    async def _receive(self) -> Frame | None:
        try:
            size = int.from_bytes(await self._input.readexactly(4), "big")
            return await self._input.readexactly(size)
        except asyncio.IncompleteReadError:
            return None

    async def _send(self, frame: Frame) -> None:
        self._output.write(len(frame).to_bytes(4, "big"))
        self._output.write(frame)
        await self._output.drain()

    async def _close(self) -> None:
        self._output.close()
        await self._output.wait_closed()


def connect_tcp(url: str, _options: RemoteOptions) -> TransportFactory:
    """Return an opener for `tcp://HOST:PORT`."""
    parts = urlsplit(url)
    return lambda: TcpTransport(parts.hostname or "", parts.port or 0)


@asynccontextmanager
async def listening(
    serve: Callable[[Transport], Awaitable[None]], *, frame_bytes: int = FRAME_BYTES
) -> AsyncGenerator[str, None]:
    """Serve each connection to a free local port; yield its URL."""
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        transport = TcpTransport(streams=(reader, writer), frame_bytes=frame_bytes)
        try:
            await serve(transport)
        finally:
            await transport.aclose()
            tasks.discard(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        host, port = server.sockets[0].getsockname()
        yield f"tcp://{host}:{port}"
    finally:
        server.close()
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=10)
            assert not stuck
