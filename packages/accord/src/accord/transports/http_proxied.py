"""Requests to one server through a proxy, by httpx2."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import suppress

import httpx2

from accord.transports.http_codec import Headers
from accord.transports.http_exchange import CannotConnect

CONNECT_S = 10.0
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
        pools, self._pools = self._pools, []
        for pool in pools:
            with suppress(httpx2.HTTPError, OSError, RuntimeError):
                await pool.transport.aclose()

    def _free(self) -> _Pool:
        for pool in self._pools:
            if pool.requests < _REQUESTS:
                return pool
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
        self._pool.requests -= 1
        with suppress(httpx2.HTTPError, OSError):
            await self._response.aclose()


class _ProxiedBody:
    def __init__(self, response: httpx2.Response) -> None:
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        self._parts: AsyncIterator[bytes] = aiter(stream)

    async def take(self) -> bytes:
        """Return what has arrived, or nothing at the end; raise `OSError` if it is cut off."""
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
