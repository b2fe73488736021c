"""Decides which MCP servers a remote client may name: commands, and addresses of this network."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Generator, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from accord.errors import InvalidParams, RequestError
from accord.remote.guarded_transport import FrameGuard
from accord.text.excerpt import one_line
from accord.text.lenient_json import is_array, is_object
from accord.transports.base import Frame

RESOLVE_S = 5.0  # for the addresses of a host name
_RESOLVING = 4  # names at a time: a lookup cannot be cancelled and keeps a thread
_MAX_SERVERS = 100  # in one message
_MAX_URL = 8192  # characters
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# What all programs read alike: other forms name one host to one program, and another to the next.
_PLAIN_URL = re.compile(
    r"(?P<scheme>https?)://([\w.~%!$&'()*+,;=:-]*@)?"
    r"(?P<host>[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?|\[[0-9a-f.]*:[0-9a-f:.]*\])(:(?P<port>[0-9]{0,5}))?"
    r"([/?#][!-\[\]-~]*)?",
    re.ASCII | re.IGNORECASE,
)
_KINDS = ("stdio", "private")
_KEY = "mcpservers"
# Beginnings of spellings that a decoder may read as the key: any case, escapes, a long s,
# and encodings in which every second byte is zero.
_OTHER_SPELLINGS = (b"\\u", "ſ".encode(), b"\0")


class McpPolicy(Struct, frozen=True):
    """The MCP servers that a client may name in addition to those with public addresses.

    `commands`: servers that the agent starts. `private`: all addresses, also those of this
    machine and its networks. `hosts`: these names and addresses, each with its port if it has one.
    """

    commands: bool = False
    private: bool = False
    hosts: tuple[tuple[str, int | None], ...] = ()

    @staticmethod
    def of(allowed: Sequence[str]) -> McpPolicy:
        """Return the policy that allows `stdio`, `private` and hosts; raise `ValueError`."""
        hosts = tuple(_host_and_port(name) for name in allowed if name not in _KINDS)
        return McpPolicy("stdio" in allowed, "private" in allowed, hosts)

    @property
    def allows_all(self) -> bool:
        """Whether the policy refuses nothing."""
        return self.commands and self.private

    def allows_host(self, host: str, port: int) -> bool:
        """Return whether a host is allowed by its name."""
        host = _without_dot(host)
        return any(host == name and given in (None, port) for name, given in self.hosts)


class McpGuard(FrameGuard):
    """Refuses messages that name MCP servers which the policy does not allow (R-SEC-09).

    The entries are found by their key, at any depth: agents accept them in `_meta`, too.
    """

    def __init__(self, policy: McpPolicy) -> None:
        self._policy = policy
        self._resolving = asyncio.Semaphore(_RESOLVING)

    def concerns(self, frame: Frame) -> bool:
        return _KEY.encode() in frame.lower() or any(other in frame for other in _OTHER_SPELLINGS)

    async def refusal(self, message: dict[str, Any]) -> RequestError | None:
        if not any(key.casefold() == "method" for key in message):
            return None  # a response
        for number, (name, entry) in enumerate(_entries(message)):
            if number == _MAX_SERVERS:
                return InvalidParams(f"More than {_MAX_SERVERS} MCP servers are not allowed")
            if (why := await self._objection(entry)) is not None:
                text = f"The MCP server {one_line(name, 100)!r} is not allowed: {why}"
                return InvalidParams(text, data={"mcpServer": one_line(name, 100)})
        return None

    async def _objection(self, entry: Any) -> str | None:
        """Return why a server is not allowed."""
        if not is_object(entry):
            return None  # the agent refuses it
        fields = [(key.casefold(), value) for key, value in entry.items()]
        if not self._policy.commands and any(key == "command" for key, _ in fields):
            return "this server starts no commands for remote clients (allow_mcp: stdio)"
        if not self._policy.private:
            for key, value in fields:
                if key == "url" and (why := await self._objection_to_url(value)) is not None:
                    return why
        return None

    async def _objection_to_url(self, url: Any) -> str | None:
        is_text = isinstance(url, str) and len(url) <= _MAX_URL
        found = _PLAIN_URL.fullmatch(url) if is_text else None
        if found is None:
            return "its URL is not a plain http or https address"
        scheme, host, port = found["scheme"].lower(), found["host"], found["port"]
        number = int(port) if port else 443 if scheme == "https" else 80
        if self._policy.allows_host(host.strip("[]"), number):
            return None
        if number < 65536 and await self._is_public(host.strip("[]"), number):
            return None
        return "its address is private or unknown (allow_mcp: private, or its HOST)"

    async def _is_public(self, host: str, port: int) -> bool:
        """Return whether all addresses of a host are public; an unknown host has none."""
        try:
            async with asyncio.timeout(RESOLVE_S), self._resolving:
                found = await asyncio.get_running_loop().getaddrinfo(
                    host, port, type=socket.SOCK_STREAM
                )
        except (OSError, UnicodeError, TimeoutError):
            return False
        return bool(found) and all(_is_public(str(address[4][0])) for address in found)


def _entries(message: Any) -> Generator[tuple[str, Any]]:
    """Yield the name and the content of each MCP server in a message, at any depth."""
    values = [message]
    while values:
        value = values.pop()
        if is_object(value):
            for key, inner in value.items():
                if key.casefold() == _KEY:
                    yield from _named(inner)
            values += value.values()
        elif is_array(value):
            values += value


def _named(servers: Any) -> Generator[tuple[str, Any]]:
    """Yield the servers of a list, or of an object by their names."""
    if is_object(servers):
        yield from servers.items()
    elif is_array(servers):
        for server in servers:
            name = server.get("name") if is_object(server) else None
            yield name if isinstance(name, str) else "", server


def _is_public(address: str) -> bool:
    """Return whether an IP address is outside of all networks with a special purpose."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is None and ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
        ip = inner or ip
    return ip.is_global and not ip.is_multicast


def _without_dot(host: str) -> str:
    return host.lower().removesuffix(".")


def _host_and_port(name: str) -> tuple[str, int | None]:
    with suppress(ValueError):
        parts = urlsplit(f"//{name}")
        if parts.hostname and parts.netloc == name and "@" not in name:
            return _without_dot(parts.hostname), parts.port
    raise ValueError(
        f"allow_mcp: expected stdio, private or HOST[:PORT], got {one_line(name, 100)!r}"
    )
