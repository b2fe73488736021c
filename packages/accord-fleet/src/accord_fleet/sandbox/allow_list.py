"""A proxy on a Unix socket that leads to the allowed hosts only."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from accord_fleet.sandbox.settings import HostRule
from accord_fleet.splice import serve_unix, splice

log: logging.Logger = logging.getLogger("accord.fleet")

_HEAD_S = 30.0
_CONNECT_S = 30.0


@contextlib.asynccontextmanager
async def serve_allow_list(hosts: Sequence[str], path: Path) -> AsyncGenerator[None]:
    """Serve HTTP proxy requests at a Unix socket: CONNECT, and requests with a whole address.

    The socket is in a directory of the caller that nobody else can enter.
    """
    proxy = _Proxy([HostRule.parse(host) for host in hosts])
    async with serve_unix(path, proxy.serve):
        yield


class _Proxy:
    def __init__(self, rules: Sequence[HostRule]) -> None:
        self._rules = rules

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_HEAD_S):
            head = await reader.readuntil(b"\r\n\r\n")
        line, *fields = head[:-4].split(b"\r\n")
        method, target, version = line.decode("ascii").split(" ")
        is_tunnel = method == "CONNECT"
        address = urlsplit(f"//{target}" if is_tunnel else target)
        host, port = address.hostname or "", address.port or (443 if is_tunnel else 80)
        if not is_tunnel and address.scheme != "http":
            await _refuse(writer, "400 Bad Request", "Expected CONNECT or a whole http: address")
            return
        if not any(rule.allows(host, port) for rule in self._rules):
            log.info("x the sandbox does not allow %s:%d", host, port)
            await _refuse(writer, "403 Forbidden", f"The sandbox does not allow {host}:{port}")
            return
        try:
            async with asyncio.timeout(_CONNECT_S):
                outer_reader, outer_writer = await asyncio.open_connection(host, port)
        except (OSError, TimeoutError) as exc:
            await _refuse(writer, "502 Bad Gateway", f"{host}:{port} cannot be reached: {exc}")
            return
        try:
            if is_tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                path = address._replace(scheme="", netloc="", fragment="").geturl() or "/"
                outer_writer.write(_origin_head(method, path, version, fields))
            await splice((reader, outer_writer), (outer_reader, writer))
        finally:
            outer_writer.close()


def _origin_head(method: str, path: str, version: str, fields: Sequence[bytes]) -> bytes:
    """Return the head of a request for the server itself, the last of its connection."""
    dropped = (b"connection:", b"proxy-", b"keep-alive:")
    kept = [field for field in fields if not field.lower().startswith(dropped)]
    first = f"{method} {path} {version}".encode()
    return b"\r\n".join([first, *kept, b"Connection: close", b"", b""])


async def _refuse(writer: asyncio.StreamWriter, status: str, message: str) -> None:
    body = f"{message}\n".encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()
