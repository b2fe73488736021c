"""HTTP requests to one server, by httpx2."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from accord.errors import ConnectionLost, TransportError
from accord.text.excerpt import excerpt, one_line
from accord.transports.cookies import CookieStore
from accord.transports.http_status import where
from accord.transports.registry import RemoteOptions
from accord.transports.remote_address import login_headers
from accord.transports.tls_errors import tls_reason
from accord.version import __version__

__all__ = ("HttpClient", "HttpResponse")

log: logging.Logger = logging.getLogger("accord.transports.http")

CONNECT_S = 10.0
WRITE_S = 30.0
BODY_S = 60.0  # for the body of a response other than a stream
# Servers close connections that are idle for 5 s or more: a request must not meet such an end.
KEEP_S = 3.0
# Of one HTTP/2 connection. R-HTTP-38 allows 90, but with a third request httpcore2 2.16 can leave
# a response unread until other data arrives: a task that waits for the network holds the lock.
_REQUESTS_PER_POOL = 2
_IDLE_POOLS = 4


class HttpResponse:
    """A response whose body is yet to be read; close it."""

    def __init__(self, response: httpx2.Response, pool: _Pool, client: HttpClient) -> None:
        self._response = response
        self._pool = pool
        self._client = client
        self._closed = False
        self.status: int = response.status_code
        self.content_type: str = (
            response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        )

    def header(self, name: str) -> str | None:
        """Return the value of a header, None if there is none."""
        return self._response.headers.get(name)

    @property
    def reason(self) -> str:
        """The reason phrase, which may be empty."""
        return self._response.reason_phrase

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the body as they arrive; raise `ConnectionLost` if it is cut off."""
        try:
            stream = self._response.stream
            assert isinstance(stream, httpx2.AsyncByteStream)
            async for chunk in stream:
                yield chunk
        except (httpx2.HTTPError, OSError, ssl.SSLError) as exc:
            raise ConnectionLost(self._client.lost(exc)) from exc

    async def read(self, limit: int) -> bytes:
        """Return the body, up to one byte more than `limit`; raise `ConnectionLost`."""
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_S):
                async for chunk in self.chunks():
                    body += chunk
                    if len(body) > limit:
                        break
        except TimeoutError:
            raise ConnectionLost(self._client.lost("the response does not end")) from None
        return bytes(body[: limit + 1])

    async def aclose(self) -> None:
        """Close the response; its connection is closed unless the body was read completely."""
        if not self._closed:
            self._closed = True
            try:
                with suppress(httpx2.HTTPError, OSError):
                    await self._response.aclose()
            finally:
                await self._client.release(self._pool)


class _Pool:
    """The connections of a few requests."""

    def __init__(self, transport: httpx2.AsyncHTTPTransport) -> None:
        self.transport = transport
        self.requests = 0


class HttpClient:
    """Sends requests to one URL, and never to another; redirects are not followed.

    As many connections are opened as there are requests at the same time; a few idle ones are kept
    for `KEEP_S` seconds.
    """

    def __init__(self, url: str, options: RemoteOptions, cookies: CookieStore) -> None:
        self._url = url
        self._options = options
        self._cookies = cookies
        self._headers = {"User-Agent": f"accord/{__version__}", **login_headers(options)}
        self._pools: list[_Pool] = []
        self._context: ssl.SSLContext | bool = False
        if urlsplit(url).scheme.lower() == "https":
            self._context = ssl.create_default_context(cafile=options.ca_file)
        self._proxy = _proxy_for(url) if options.trust_env else None

    async def send(
        self, method: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> HttpResponse:
        """Send a request; return the response once its head has arrived.

        Raises `TransportError` if the server cannot be reached, `ConnectionLost` if the connection
        ends before the response.
        """
        sent = {**self._headers, **headers}
        if cookies := self._cookies.header(self._url):
            sent["Cookie"] = cookies
        timeout = {"connect": CONNECT_S, "write": WRITE_S, "pool": None, "read": None}
        request = httpx2.Request(
            method, self._url, headers=sent, content=body, extensions={"timeout": timeout}
        )
        pool = self._free_pool()
        try:
            response = await pool.transport.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as exc:
            await self.release(pool)
            reason = tls_reason(exc) or _reason(exc)
            raise TransportError(f"Cannot connect to {where(self._url)}: {reason}") from exc
        except (httpx2.HTTPError, OSError, ssl.SSLError) as exc:
            await self.release(pool)
            raise ConnectionLost(self.lost(exc)) from exc
        except BaseException:
            await self.release(pool)
            raise
        self._cookies.take(self._url, response.headers.get_list("Set-Cookie"))
        return HttpResponse(response, pool, self)

    def lost(self, why: Exception | str) -> str:
        """Return the error message for a lost connection."""
        reason = why if isinstance(why, str) else _reason(why)
        return f"The connection to {where(self._url)} was lost: {reason}"

    async def release(self, pool: _Pool) -> None:
        """Count a request as finished."""
        pool.requests -= 1
        idle = [pool for pool in self._pools if not pool.requests]
        if len(idle) > _IDLE_POOLS:
            self._pools.remove(idle[-1])
            await _close(idle[-1])

    async def aclose(self) -> None:
        """Close all connections."""
        pools, self._pools = self._pools, []
        for pool in pools:
            await _close(pool)

    def _free_pool(self) -> _Pool:
        for pool in self._pools:
            if pool.requests < _REQUESTS_PER_POOL:
                break
        else:
            pool = _Pool(self._new_transport())
            self._pools.append(pool)
        pool.requests += 1
        return pool

    def _new_transport(self) -> httpx2.AsyncHTTPTransport:
        limits = httpx2.Limits(
            max_connections=None,
            max_keepalive_connections=_REQUESTS_PER_POOL,
            keepalive_expiry=KEEP_S,
        )
        secure = self._context is not False
        return httpx2.AsyncHTTPTransport(
            verify=self._context,
            trust_env=False,
            http1=secure or not self._options.h2c,
            http2=secure or self._options.h2c,
            limits=limits,
            proxy=self._proxy,
            socket_options=_KEEPALIVE,
        )


async def _close(pool: _Pool) -> None:
    with suppress(httpx2.HTTPError, OSError, RuntimeError):
        await pool.transport.aclose()


def _keepalive() -> list[tuple[int, int, int]]:
    """Return the socket options that find a dead peer in about a minute (T28)."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options


_KEEPALIVE = _keepalive()


def _proxy_for(url: str) -> str | None:
    """Return the proxy that the environment names for a URL; log it without its password (T19)."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    proxies = getproxies()
    proxy = proxies.get(parts.scheme.lower()) or proxies.get("all")
    if proxy is None or proxy_bypass(host):
        return None
    log.info("= %s is reached by the proxy %s", where(url), where(proxy).rpartition("@")[2])
    return proxy


def _reason(exc: Exception) -> str:
    return excerpt(one_line(str(exc))) or type(exc).__name__
