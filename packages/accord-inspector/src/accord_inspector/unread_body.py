"""Reads what a response has left of the body of its request.

The server closes a connection whose request was read only in part, and the browser may have sent
the next request on it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from accord.remote.access import Event, Receive, Scope, Send

_MOST_BYTES = 1024 * 1024  # more is not read: the connection is closed
_MOST_S = 2.0


class UnreadBody:
    """The `receive` and `send` of one request, for its application."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._is_read = scope["method"] in ("GET", "HEAD")

    async def receive(self) -> Event:
        """Receive an event."""
        event = await self._receive()
        if event["type"] != "http.request" or not event.get("more_body", False):
            self._is_read = True
        return event

    async def send(self, event: Event) -> None:
        """Send an event; before the first one, read the rest of the body."""
        if event["type"] == "http.response.start":
            with suppress(TimeoutError):
                async with asyncio.timeout(_MOST_S):
                    await self._read_rest()
        await self._send(event)

    async def _read_rest(self) -> None:
        left = _MOST_BYTES
        while not self._is_read and left > 0:
            left -= len((await self.receive()).get("body", b""))
