"""Downloads one web page from an IP address that was resolved and checked before."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import SplitResult

from msgspec import Struct

_CONNECT_S = 10.0
_PIECE_BYTES = 64 * 1024


class Page(Struct, frozen=True):
    """The response of a server; the body can be cut at the limit."""

    status: int
    mime_type: str
    charset: str | None
    location: str | None
    body: bytes


def private_among(addresses: Sequence[str]) -> str | None:
    """Return the first address that is not on the public internet."""
    for address in addresses:
        found = ipaddress.ip_address(address.partition("%")[0])
        if isinstance(found, ipaddress.IPv6Address):
            found = found.ipv4_mapped or found.sixtofour or found
        if not found.is_global or found.is_multicast:
            return address
    return None


class Download:
    """A GET request to one address. `run` blocks; `stop` ends it from another thread."""

    def __init__(self, url: SplitResult, address: str, max_bytes: int, user_agent: str) -> None:
        self._url = url
        self._address = address
        self._max_bytes = max_bytes
        self._user_agent = user_agent
        self._socket: socket.socket | None = None
        self._stopped = False

    def run(self) -> Page:
        """Return the response; raise `OSError` or `http.client.HTTPException`."""
        host = self._url.hostname or ""
        secure = self._url.scheme == "https"
        port = self._url.port or (443 if secure else 80)
        plain = socket.create_connection((self._address, port), timeout=_CONNECT_S)
        connection = http.client.HTTPConnection(host, port)
        try:
            self._socket = plain
            if secure:
                context = ssl.create_default_context()
                self._socket = context.wrap_socket(plain, server_hostname=host)
            if self._stopped:
                raise ConnectionAbortedError
            connection.sock = self._socket  # not a new lookup of the name
            return self._get(connection)
        finally:
            connection.close()
            plain.close()

    def stop(self) -> None:
        """Make `run` fail."""
        self._stopped = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _get(self, connection: http.client.HTTPConnection) -> Page:
        target = self._url.path or "/"
        if self._url.query:
            target += f"?{self._url.query}"
        headers = {
            "Accept": "text/html, text/*, application/json, */*;q=0.5",
            "Accept-Encoding": "identity",
            "Connection": "close",
            "User-Agent": self._user_agent,
        }
        connection.request("GET", target, headers=headers)
        answer = connection.getresponse()
        body = bytearray()
        while len(body) <= self._max_bytes and (piece := answer.read(_PIECE_BYTES)):
            body += piece
        return Page(
            status=answer.status,
            mime_type=answer.headers.get_content_type().lower(),
            charset=answer.headers.get_content_charset(),
            location=answer.headers.get("Location"),
            body=bytes(body),
        )
