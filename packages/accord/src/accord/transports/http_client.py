"""HTTP requests to one URL, with the login, the cookies and the errors of it.

`HttpClient` sends them. `HttpConnections` has the connections to a server: `Http1` here, by h11, or
`Http2` in a module of its own, because h2 is slow to import. `ProxiedConnections` is for requests
through a proxy, by httpx2.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import h11

from accord.errors import ConnectionLost, TransportError
from accord.text.excerpt import excerpt, one_line
from accord.text.secrets import plain_url
from accord.transports.base import HIGH_BYTES
from accord.transports.http_messages import KEEP_S, Codec, Headers, RawResponse, ResponseBody
from accord.transports.registry import CookieStore, RemoteOptions, login_headers, tls_reason
from accord.version import __version__

if TYPE_CHECKING:
    import httpx2  # slow to import

log: logging.Logger = logging.getLogger("accord.transports.http")

BODY_S = 60.0  # for the body of a response other than a stream
_PORTS = {"http": 80, "https": 443}


class HttpResponse:
    """A response whose body is yet to be read; close it."""

    def __init__(self, response: RawResponse | ProxiedResponse, client: HttpClient) -> None:
        self._response = response
        self._client = client
        self._closed = False
        self._headers = {name.lower(): value.decode("latin-1") for name, value in response.headers}
        self.status: int = response.status
        kind = self._headers.get(b"content-type", "")
        self.content_type: str = kind.partition(";")[0].strip().lower()

    def header(self, name: str) -> str | None:
        """Return the value of a header, None if there is none."""
        return self._headers.get(name.lower().encode())

    @property
    def reason(self) -> str:
        """The reason phrase, which may be empty."""
        return self._response.reason

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the body as they arrive; raise `ConnectionLost` if it is cut off."""
        body = self._response.body
        try:
            while chunk := await body.take():
                yield chunk
        except OSError as exc:
            raise ConnectionLost(self._client.lost(exc)) from exc

    async def read(self, limit: int) -> bytes:
        """Return the body, up to one byte more than `limit`; raise `ConnectionLost`."""
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_S):
                while chunk := await self._response.body.take():
                    body += chunk
                    if len(body) > limit:
                        break
        except TimeoutError:
            raise ConnectionLost(self._client.lost("the response does not end")) from None
        except OSError as exc:
            raise ConnectionLost(self._client.lost(exc)) from exc
        return bytes(body[: limit + 1])

    async def aclose(self) -> None:
        """Close the response, and the connection unless it can be used again."""
        if not self._closed:
            self._closed = True
            await self._response.aclose()


class HttpClient:
    """Sends requests to one URL, and never to another; redirects are not followed."""

    def __init__(self, url: str, options: RemoteOptions, cookies: CookieStore) -> None:
        parts = urlsplit(url)
        self._url = url
        self._cookies = cookies
        self._target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        host = (parts.hostname or "").encode("idna").decode()
        shown = f"[{host}]" if ":" in host else host
        port = parts.port or _PORTS[parts.scheme]
        named = shown if parts.port is None else f"{shown}:{port}"
        self._headers: Headers = [(b"Host", named.encode())]
        self._headers.append((b"User-Agent", f"accord/{__version__}".encode()))
        for name, value in login_headers(options).items():
            self._headers.append((name.encode(), value.encode("latin-1", "replace")))
        context: ssl.SSLContext | None = None
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=options.ca_file)
            context.set_alpn_protocols(["h2", "http/1.1"])
        proxy = _proxy_for(url) if options.trust_env else None
        self._connections: HttpConnections | ProxiedConnections
        if proxy is None:
            self._connections = HttpConnections(host, port, context, h2c=options.h2c)
        else:
            base = f"{parts.scheme}://{named}"
            self._connections = ProxiedConnections(base, proxy, context, keep_s=KEEP_S)

    async def send(
        self, method: str, headers: Mapping[str, str], body: bytes = b""
    ) -> HttpResponse:
        """Send a request; return the response once its head has arrived.

        Raises `TransportError` if the server cannot be reached, `ConnectionLost` if the connection
        ends before the response.
        """
        sent = [*self._headers]
        for name, value in headers.items():
            sent.append((name.encode(), value.encode("utf-8")))
        if method == "POST":
            sent.append((b"Content-Length", b"%d" % len(body)))
        if cookies := self._cookies.header(self._url):
            sent.append((b"Cookie", cookies.encode("latin-1", "replace")))
        try:
            response = await self._connections.send(method, self._target, sent, body)
        except CannotConnect as exc:
            reason = tls_reason(exc) or _shown(exc)
            raise TransportError(f"Cannot connect to {plain_url(self._url)}: {reason}") from exc
        except OSError as exc:
            raise ConnectionLost(self.lost(exc)) from exc
        set_cookies = [value for name, value in response.headers if name.lower() == b"set-cookie"]
        if set_cookies:
            self._cookies.take(self._url, (value.decode("latin-1") for value in set_cookies))
        return HttpResponse(response, self)

    def lost(self, why: Exception | str) -> str:
        """Return the error message for a lost connection."""
        reason = why if isinstance(why, str) else _shown(why)
        return f"The connection to {plain_url(self._url)} was lost: {reason}"

    async def aclose(self) -> None:
        """Close all connections."""
        await self._connections.aclose()


def _proxy_for(url: str) -> str | None:
    """Return the proxy that the environment names for a URL; log it without its password (T19)."""
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if proxy is None or proxy_bypass(parts.hostname or ""):
        return None
    log.info("= %s is reached by the proxy %s", plain_url(url), plain_url(proxy))
    return proxy


def _shown(exc: Exception) -> str:
    return excerpt(one_line(str(exc))) or type(exc).__name__


# Connections to one HTTP server, of HTTP/1.1 or HTTP/2, and the exchanges on them.

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


# One HTTP/1.1 connection, by h11: one request at a time.

_HEAD_BYTES = 64 * 1024


class Http1(Codec):
    """Sends a request when the response to the one before was read."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)
        self._head: asyncio.Future[RawResponse] | None = None
        self._body: ResponseBody | None = None
        self._is_paused = False

    @property
    def has_room(self) -> bool:
        return not self.is_over and self.requests == 0

    async def ready(self) -> None:
        pass

    async def send(self, method: str, target: str, headers: Headers, body: bytes) -> RawResponse:
        self._head = asyncio.get_running_loop().create_future()
        self._body = ResponseBody(self._body_taken)
        request = h11.Request(method=method, target=target, headers=headers)
        data = self._http.send(request) or b""
        if body:
            data += self._http.send(h11.Data(data=body)) or b""
        data += self._http.send(h11.EndOfMessage()) or b""
        self.transport.write(data)
        try:
            return await self._head
        except asyncio.CancelledError:
            self.transport.abort()
            raise
        finally:
            self._head = None

    def release(self, response: RawResponse) -> None:
        """Keep the connection if the response is complete, else close it."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._body = None
        elif not self.is_over:
            self.is_over = True
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            self._http.receive_data(data)
            while self._next_event(self._http.next_event()):
                pass
        except h11.RemoteProtocolError as exc:
            self.lost(ConnectionError(f"the response is not valid HTTP: {exc}"))
            self.transport.abort()

    def _next_event(self, event: Any) -> bool:
        """Handle an event; return whether another may follow."""
        if isinstance(event, h11.Data):
            if self._body is not None:
                self._body.add(bytes(event.data))
                if self._body.size > HIGH_BYTES and not self._is_paused:
                    self._is_paused = True
                    self.transport.pause_reading()
            return True
        if isinstance(event, h11.Response):
            assert self._body is not None
            if self._head is not None and not self._head.done():
                fields = list(event.headers)
                response = RawResponse(event.status_code, fields, self._body, self)
                response.reason = bytes(event.reason).decode("latin-1")
                self._head.set_result(response)
            return True
        if isinstance(event, h11.EndOfMessage):
            if self._body is not None:
                self._body.end()
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                self.is_over = True
            return False
        return isinstance(event, h11.InformationalResponse)

    def eof_received(self) -> None:
        self.is_over = True
        if self._body is not None and not self._body.has_ended:
            self.data_received(b"")

    def lost(self, error: Exception | None) -> None:
        self.is_over: bool = True
        why = error or ConnectionError("the server has closed it")
        if self._head is not None and not self._head.done():
            self._head.set_exception(why)
        if self._body is not None:
            self._body.end(why)

    def _body_taken(self, _size: int) -> None:
        if self._is_paused:
            self._is_paused = False
            self.transport.resume_reading()


# Requests to one server through a proxy, by httpx2.

# Of one connection: with a third request on HTTP/2, httpcore2 2.16 can leave a response unread
# until other data arrives, because the task that waits for the network holds the others' lock.
_REQUESTS = 2


class ProxiedConnections:
    """Sends requests to one server through a proxy."""

    def __init__(
        self, base: str, proxy: str, context: ssl.SSLContext | None, *, keep_s: float
    ) -> None:
        self._base = base
        self._proxy = proxy
        self._context = context
        self._keep_s = keep_s
        self._pools: list[_Pool] = []

    async def send(
        self, method: str, target: str, headers: Headers, body: bytes
    ) -> ProxiedResponse:
        """Send a request and return the head of the response.

        Raises `CannotConnect`, or `OSError` if a connection ends before the response.
        """
        import httpx2

        timeout = {"connect": CONNECT_S, "write": None, "pool": None, "read": None}
        request = httpx2.Request(
            method,
            self._base + target,
            headers=headers,
            content=body or None,
            extensions={"timeout": timeout},
        )
        pool = self._free()
        pool.requests += 1
        try:
            response = await pool.transport.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as exc:
            pool.requests -= 1
            raise CannotConnect(str(exc) or type(exc).__name__) from exc
        except httpx2.HTTPError as exc:
            pool.requests -= 1
            raise ConnectionError(str(exc) or type(exc).__name__) from exc
        except BaseException:
            pool.requests -= 1
            raise
        return ProxiedResponse(response, pool)

    async def aclose(self) -> None:
        """Close all connections."""
        import httpx2

        pools, self._pools = self._pools, []
        for pool in pools:
            with suppress(httpx2.HTTPError, OSError, RuntimeError):
                await pool.transport.aclose()

    def _free(self) -> _Pool:
        for pool in self._pools:
            if pool.requests < _REQUESTS:
                return pool
        import httpx2

        limits = httpx2.Limits(
            max_connections=None, max_keepalive_connections=_REQUESTS, keepalive_expiry=self._keep_s
        )
        verify = False if self._context is None else self._context
        transport = httpx2.AsyncHTTPTransport(
            verify=verify, trust_env=False, http2=True, limits=limits, proxy=self._proxy
        )
        self._pools.append(_Pool(transport))
        return self._pools[-1]


class ProxiedResponse:
    """The head of a response, and its body as it arrives; close it."""

    def __init__(self, response: httpx2.Response, pool: _Pool) -> None:
        self.status: int = response.status_code
        self.headers: Headers = list(response.headers.raw)
        self.reason: str = response.reason_phrase
        self.body: _ProxiedBody = _ProxiedBody(response)
        self._response = response
        self._pool = pool

    async def aclose(self) -> None:
        """Give up what was not read."""
        import httpx2

        self._pool.requests -= 1
        with suppress(httpx2.HTTPError, OSError):
            await self._response.aclose()


class _ProxiedBody:
    def __init__(self, response: httpx2.Response) -> None:
        import httpx2

        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        self._parts: AsyncIterator[bytes] = aiter(stream)

    async def take(self) -> bytes:
        """Return what has arrived, or nothing at the end; raise `OSError` if it is cut off."""
        import httpx2

        try:
            async for part in self._parts:
                if part:
                    return part
        except httpx2.HTTPError as exc:
            raise ConnectionError(str(exc) or type(exc).__name__) from exc
        return b""


class _Pool:
    """The connections of a few requests."""

    def __init__(self, transport: httpx2.AsyncHTTPTransport) -> None:
        self.transport = transport
        self.requests = 0
