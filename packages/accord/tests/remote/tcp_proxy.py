"""A TCP proxy whose connections can be cut, silenced and refused."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress


class TcpProxy:
    """Passes bytes between clients and one server.

    `accepted` counts the connections. While `refuses`, new connections are closed at once.
    `piece_bytes` is the most that is passed in one piece.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self.target = (host, int(port))
        self.accepted = 0
        self.refuses = False
        self.piece_bytes: int = 64 * 1024
        self._may_pass = asyncio.Event()
        self._may_pass.set()
        self._may_send = asyncio.Event()
        self._may_send.set()
        self._connections: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    def cut(self) -> None:
        """Reset all connections."""
        for writer in self._writers:
            linger = socket.SO_LINGER
            with suppress(OSError):
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, linger, b"\1\0\0\0\0\0\0\0"
                )
            writer.transport.abort()

    def silence(self) -> None:
        """Stop passing bytes; the connections stay open, and new ones are accepted."""
        self._may_pass.clear()

    def hold_requests(self) -> None:
        """Stop passing what clients send; what the server sends is passed."""
        self._may_send.clear()

    def resume(self) -> None:
        """Pass bytes again."""
        self._may_pass.set()
        self._may_send.set()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self._writers.add(writer)
        self.accepted += 1
        try:
            if self.refuses:
                return
            there, to_server = await asyncio.open_connection(*self.target)
            self._writers.add(to_server)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pass(reader, to_server, self._may_send))
                    both.create_task(self._pass(there, writer, self._may_pass))
            finally:
                to_server.transport.abort()
                self._writers.discard(to_server)
        except* OSError:
            pass
        finally:
            writer.transport.abort()
            self._writers.discard(writer)
            self._connections.discard(task)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, may_pass: asyncio.Event
    ) -> None:
        while data := await reader.read(self.piece_bytes):
            await self._may_pass.wait()
            await may_pass.wait()
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError  # ends the other direction, too

    async def aclose(self) -> None:
        """End all connections."""
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections, timeout=5)


@asynccontextmanager
async def tcp_proxy(target: str) -> AsyncGenerator[tuple[TcpProxy, str]]:
    """Yield a proxy of a server, and its address as `HOST:PORT`."""
    proxy = TcpProxy(target)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield proxy, f"{host}:{port}"
    finally:
        server.close()
        await proxy.aclose()
        await server.wait_closed()
