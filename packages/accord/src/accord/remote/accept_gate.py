"""Bounds what clients cost before and without a login: sockets, slow heads, many refusals."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections import Counter
from contextlib import suppress
from typing import Any, TypeAlias

from msgspec import Struct

from accord.remote.asgi_types import AsgiApp, Receive, Scope, Send, path_of

if sys.platform != "win32":
    import resource


log: logging.Logger = logging.getLogger("accord.remote")

_Name: TypeAlias = tuple[str, int]  # host and port of the other end

_REFUSED = frozenset({401, 403, 421})
_WINDOW_S = 10.0  # in which the requests that a client takes back are counted
_FREE_FDS = 4  # of all file descriptors, one in so many is not for sockets


class SocketLimits(Struct, frozen=True, kw_only=True):
    """The bounds on network connections, whatever is sent on them (T9, T12, T13)."""

    sockets: int = 16_384
    per_address: int = 8_192
    without_request: int = 512  # beyond these the oldest is closed
    head_s: float = 10.0  # for the first request to arrive
    refusals: int = 100  # of one HTTP/2 connection
    requests: int = 2000  # of one connection at the same time
    resets: int = 200  # requests of one connection that the client takes back within 10 s


class AcceptGate:
    """Accepts connections within limits, and closes those that exceed one.

    `guard` makes a listening socket count; `app` counts the requests. A connection without a
    request is the cheapest attack: these are closed after `head_s`, and the oldest of them if
    there are too many, so that other clients still get in.
    """

    def __init__(self, limits: SocketLimits) -> None:
        self._limits = limits
        self._most = min(limits.sockets, _most_sockets())
        self._open: dict[_Name, _Accepted] = {}
        self._new: dict[_Name, _Accepted] = {}  # without a request, the oldest first
        self._per_address: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._full = False

    def guard(self, listening: socket.socket) -> socket.socket:
        """Return a listening socket in place of one of TCP."""
        if listening.family not in (socket.AF_INET, socket.AF_INET6):
            return listening
        guarded = _Guarded(fileno=listening.detach())
        guarded.setblocking(False)
        guarded.gate = self
        return guarded

    def app(self, app: AsgiApp) -> AsgiApp:
        """Return an application that counts the requests of each connection."""

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            client = scope.get("client")
            accepted = None if client is None else self._open.get((client[0], client[1]))
            if accepted is None:
                await app(scope, receive, send)
                return
            self._new.pop(accepted.name, None)
            if accepted.running >= self._limits.requests:
                self._close(accepted, "it has too many requests")
                return
            accepted.running += 1
            try:
                if scope["type"] == "http":
                    request = _Request(self, accepted, scope, receive, send)
                    await app(scope, request.receive, request.send)
                else:
                    await app(scope, receive, send)
            finally:
                accepted.running -= 1

        return counted

    def aclose(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # For accepted connections.

    def admits(self, address: Any) -> bool:
        """Return whether a new connection may stay; make place for it."""
        if len(self._new) >= min(self._limits.without_request, self._most):
            self._close_oldest()
        full = len(self._open) >= self._most
        if full and self._new:
            self._close_oldest()
            full = False
        if full or self._per_address[address[0]] >= self._limits.per_address:
            if not self._full:
                self._full = True
                log.warning("! there are %d connections, the limit", len(self._open))
            return False
        return True

    def add(self, accepted: _Accepted) -> None:
        """Count a connection."""
        loop = asyncio.get_running_loop()
        accepted.until = loop.time() + self._limits.head_s
        self._open[accepted.name] = self._new[accepted.name] = accepted
        self._per_address[accepted.name[0]] += 1
        if self._timer is None:
            self._timer = loop.call_at(accepted.until, self._check)

    def remove(self, accepted: _Accepted) -> None:
        """Stop counting a connection."""
        if self._open.get(accepted.name) is not accepted:
            return
        del self._open[accepted.name]
        self._new.pop(accepted.name, None)
        self._per_address[accepted.name[0]] -= 1
        if not self._per_address[accepted.name[0]]:
            del self._per_address[accepted.name[0]]
        self._full = self._full and len(self._open) >= self._most // 2

    def count_refusal(self, accepted: _Accepted) -> None:
        """Count a request that was refused for its login or its origin."""
        accepted.refused += 1
        if accepted.refused >= self._limits.refusals:
            self._close(accepted, "too many of its requests were refused")

    def count_reset(self, accepted: _Accepted) -> None:
        """Count a request that the client has taken back (T13)."""
        now = asyncio.get_running_loop().time()
        if now - accepted.counted_since > _WINDOW_S:
            accepted.counted_since, accepted.resets = now, 0
        accepted.resets += 1
        if accepted.resets >= self._limits.resets:
            self._close(accepted, "it takes back too many requests")

    def _check(self) -> None:
        """Close the connections without a request in time."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._timer = None
        for accepted in list(self._new.values()):
            if accepted.until > now:
                self._timer = loop.call_at(accepted.until, self._check)
                return
            self._close(accepted, "no request arrived in time")

    def _close_oldest(self) -> None:
        self._close(next(iter(self._new.values())), "too many wait for a request")

    def _close(self, accepted: _Accepted, why: str) -> None:
        log.debug("! a connection of %s is closed: %s", accepted.name[0], why)
        self.remove(accepted)
        accepted.end()


class _Guarded(socket.socket):
    """A listening socket; what it accepts is counted by its gate.

    Event loops on selectors call `accept`; that of Windows does not, so nothing is counted there.
    """

    gate: AcceptGate

    def accept(self) -> tuple[socket.socket, Any]:
        while True:
            connection, address = super().accept()
            if self.gate.admits(address):
                accepted = _Accepted(self.family, self.type, self.proto, fileno=connection.detach())
                accepted.gate, accepted.name = self.gate, (address[0], address[1])
                self.gate.add(accepted)
                return accepted, address
            connection.close()


class _Accepted(socket.socket):
    """An accepted connection."""

    gate: AcceptGate
    name: _Name
    until: float = 0.0  # its first request must arrive before
    running: int = 0  # requests
    refused: int = 0
    resets: int = 0
    counted_since: float = 0.0

    def end(self) -> None:
        """End both directions; the server of the connection then closes it."""
        with suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.gate.remove(self)
        super().close()


class _Request:
    """The ASGI callables of one request, which are counted."""

    def __init__(
        self, gate: AcceptGate, accepted: _Accepted, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self._gate = gate
        self._accepted = accepted
        self._is_http2 = scope.get("http_version") == "2"
        self._is_open_to_all = path_of(scope) in ("/health", "/ready")
        self._receive = receive
        self._send = send
        self._complete = False

    async def receive(self) -> Any:
        event = await self._receive()
        if event["type"] == "http.disconnect" and not self._complete:
            self._gate.count_reset(self._accepted)
            self._complete = True
        return event

    async def send(self, event: Any) -> None:
        if event["type"] == "http.response.start":
            if not self._is_http2 and (event["status"] >= 400 or self._is_open_to_all):
                event = {**event, "headers": [*event["headers"], (b"connection", b"close")]}
            elif event["status"] in _REFUSED:
                self._gate.count_refusal(self._accepted)
        elif event["type"] == "http.response.body" and not event.get("more_body", False):
            self._complete = True
        await self._send(event)


def _most_sockets() -> int:
    """Return how many sockets the process may have, without its other files."""
    if sys.platform == "win32":
        return 1 << 20
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 1 << 20
    return soft - soft // _FREE_FDS
