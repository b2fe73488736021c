"""A small HTTP/1.1 server whose handler decides every byte of a response."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeAlias

from accord_conformance.network.http_message import (
    BadMessage,
    ByteReader,
    Head,
    chunk,
    head_bytes,
    read_body,
    read_head,
)
from accord_conformance.network.raw_socket import RawSocket, accept_key

_REASONS = {200: "OK", 202: "Accepted", 101: "Switching Protocols", 400: "Bad Request"}

Handler: TypeAlias = Callable[["Exchange"], Awaitable[None]]


class Exchange:
    """A request, and its response, which the handler sends.

    `connection` is the number of the TCP connection. `status` is that of the response, once it was
    sent.
    """

    def __init__(
        self, head: Head, body: bytes, reader: ByteReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        self.method = head.first
        self.target = head.second
        self.path = head.second.partition("?")[0]
        self.headers = head.headers
        self.body = body
        self.connection = number
        self.time = time.monotonic()
        self.status: int | None = None
        self.is_gone = asyncio.Event()  # the client has closed the connection
        self.keeps_open = True
        self._reader, self._writer = reader, writer

    def header(self, name: str) -> str | None:
        """Return the first value of a header."""
        return self.headers.get(name)

    async def respond(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole response."""
        fields = {"Content-Length": str(len(body)), **(headers or {})}
        await self._write(self._head(status, fields) + body)

    async def start_stream(self, headers: Mapping[str, str]) -> None:
        """Send the head of a response whose body follows in parts."""
        await self._write(self._head(200, {**headers, "Transfer-Encoding": "chunked"}))

    async def send(self, data: bytes) -> None:
        """Send a part of the body; raise `ConnectionError` if the client is gone."""
        if self.is_gone.is_set():
            raise ConnectionResetError("the client has closed the stream")
        await self._write(chunk(data))

    async def end(self) -> None:
        """End the body in order."""
        await self._write(chunk(b""))

    async def send_bytes(self, data: bytes) -> None:
        """Send bytes that need not be HTTP."""
        await self._write(data)

    def abort(self) -> None:
        """Cut the connection in the middle of the response."""
        self.keeps_open = False
        self._writer.transport.abort()

    async def upgrade(
        self, headers: Mapping[str, str], on_text: Callable[[bytes], None] = lambda _: None
    ) -> RawSocket:
        """Accept a WebSocket handshake."""
        self.keeps_open = False
        key = self.header("Sec-WebSocket-Key") or ""
        fields = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Accept": accept_key(key),
            **headers,
        }
        await self._write(self._head(101, fields))
        socket = RawSocket(self._reader, self._writer, is_client=False, on_text=on_text)
        socket.start()
        return socket

    async def watch(self) -> None:
        """Set `is_gone` when the client closes the connection; run this while a stream is open."""
        early = await self._reader.some()
        if early:
            self._reader.put_back(early)
        else:
            self.is_gone.set()

    def _head(self, status: int, fields: Mapping[str, str]) -> bytes:
        self.status = status
        return head_bytes(f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}", fields.items())

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


class RawServer:
    """Serves each request by `handle`, on a port of this machine; use it with `async with`."""

    def __init__(
        self,
        handle: Handler,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._handle = handle
        self._host, self._port, self._tls = host, port, tls
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.connections = 0
        self.errors: list[Exception] = []  # of the handler
        self.port = 0

    async def __aenter__(self) -> RawServer:
        self._server = await asyncio.start_server(
            self._accept, self._host, self._port, ssl=self._tls
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.ensure_future(self._serve(reader, writer, self.connections))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        incoming = ByteReader(reader)
        try:
            keeps_open = True
            while keeps_open:
                head = await read_head(incoming)
                if head is None:
                    break
                if "100-continue" in (head.headers.get("Expect") or ""):
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await read_body(incoming, head.headers)
                exchange = Exchange(head, body, incoming, writer, number)
                await self._handle(exchange)
                keeps_open = exchange.keeps_open
        except (BadMessage, OSError):
            pass
        except Exception as error:  # noqa: BLE001  # the test that owns the server looks at it
            self.errors.append(error)
        finally:
            with suppress(OSError, asyncio.CancelledError):
                writer.close()
                async with asyncio.timeout(1):
                    await writer.wait_closed()
