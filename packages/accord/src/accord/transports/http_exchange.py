"""Connections to one HTTP server, of HTTP/1.1 or HTTP/2, and the exchanges on them."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any, cast

from accord.transports.http1 import Http1
from accord.transports.http_codec import Codec, Headers, RawResponse

CONNECT_S = 10.0
CLOSE_S = 0.5  # for connections to close in order


class CannotConnect(Exception):
    """No connection can be opened; the message has the reason."""


class _Socket(asyncio.Protocol):
    """Gives a connection the codec that the two sides have negotiated."""

    def __init__(self, h2c: bool) -> None:
        self._h2c = h2c
        self.codec: Codec | None = None
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        secured = transport.get_extra_info("ssl_object")
        is_h2 = self._h2c if secured is None else secured.selected_alpn_protocol() == "h2"
        _keep_alive(transport.get_extra_info("socket"))
        stream = cast("asyncio.Transport", transport)
        if is_h2:
            from accord.transports.http2 import Http2  # slow to import

            self.codec = Http2(stream)
        else:
            self.codec = Http1(stream)

    def data_received(self, data: bytes) -> None:
        assert self.codec is not None
        self.codec.data_received(data)

    def eof_received(self) -> None:
        assert self.codec is not None
        self.codec.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        assert self.codec is not None
        self.codec.lost(exc)
        self.closed.set_result(None)


class HttpConnections:
    """Sends requests to one server, on as many connections as they need."""

    def __init__(
        self, host: str, port: int, context: ssl.SSLContext | None, *, h2c: bool = False
    ) -> None:
        self._host, self._port = host, port
        self._context = context
        self._h2c = h2c
        self._sockets: list[_Socket] = []
        self._opening = asyncio.Lock()

    async def send(self, method: str, target: str, headers: Headers, body: bytes) -> RawResponse:
        """Send a request and return the head of the response.

        Raises `CannotConnect`, or `OSError` if a connection ends before the response.
        """
        codec = self._free() or await self._open()
        codec.requests += 1
        try:
            return await codec.send(method, target, headers, body)
        except BaseException:
            codec.requests -= 1
            raise

    def _free(self) -> Codec | None:
        """Return a connection with room for a request; forget those that are over or too old."""
        now = asyncio.get_running_loop().time()
        found: Codec | None = None
        for open_socket in list(self._sockets):
            codec = open_socket.codec
            assert codec is not None
            if codec.requests == 0 and now - codec.idle_since > codec.keep_s:
                codec.is_over = True
                codec.transport.close()
            if open_socket.closed.done():
                self._sockets.remove(open_socket)
            elif found is None and codec.has_room:
                found = codec
        return found

    async def _open(self) -> Codec:
        async with self._opening:
            if (codec := self._free()) is not None:
                return codec
            loop = asyncio.get_running_loop()
            make: Callable[[], _Socket] = lambda: _Socket(self._h2c)  # noqa: E731
            secure: dict[str, Any] = {}
            if self._context is not None:
                secure = {"ssl": self._context, "ssl_handshake_timeout": CONNECT_S}
            try:
                async with asyncio.timeout(CONNECT_S):
                    _, opened = await loop.create_connection(make, self._host, self._port, **secure)
                    self._sockets.append(opened)
                    assert opened.codec is not None
                    opened.codec.idle_since = loop.time()
                    await opened.codec.ready()
            except TimeoutError:
                raise CannotConnect(f"no connection within {CONNECT_S:g} s") from None
            except OSError as exc:
                raise CannotConnect(str(exc) or type(exc).__name__) from exc
            return opened.codec

    async def aclose(self) -> None:
        """Close all connections."""
        sockets, self._sockets = self._sockets, []
        for one in sockets:
            if one.codec is not None:
                one.codec.transport.close()
        waiting = [one.closed for one in sockets if not one.closed.done()]
        if waiting:
            await asyncio.wait(waiting, timeout=CLOSE_S)
        for one in sockets:
            if not one.closed.done() and one.codec is not None:
                one.codec.transport.abort()


def _keep_alive(connection: socket.socket | None) -> None:
    """Let the system find a dead server in about a minute (T28)."""
    if connection is None:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
