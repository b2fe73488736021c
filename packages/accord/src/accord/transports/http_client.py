"""HTTP requests to one URL, with the login, the cookies and the errors of it."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from accord.errors import ConnectionLost, TransportError
from accord.text.excerpt import excerpt, one_line
from accord.text.secrets import plain_url
from accord.transports.cookies import CookieStore
from accord.transports.http_codec import KEEP_S, Headers, RawResponse
from accord.transports.http_exchange import CannotConnect, HttpConnections
from accord.transports.registry import RemoteOptions
from accord.transports.remote_address import login_headers
from accord.transports.tls_errors import tls_reason
from accord.version import __version__

if TYPE_CHECKING:
    from accord.transports.http_proxied import ProxiedConnections, ProxiedResponse


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
            from accord.transports.http_proxied import ProxiedConnections

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
