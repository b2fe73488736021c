"""Reads the body of a request, within its limits."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from accord.remote.access import Refusal
from accord.remote.asgi_types import Event, Receive
from accord.remote.http_limits import HttpLimits

BYTES_PER_S = 1024  # a body that arrives faster has more time (T9)
DISCARD_S = 1.0  # for the rest of a body that is refused
_GONE = Refusal(499, "The client has left")


class RequestBody:
    """The `receive` of a request, with methods for its body."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._ended = False

    async def __call__(self) -> Event:
        event = await self._receive()
        if not event.get("more_body", False):
            self._ended = True
        return event

    async def read(self, headers: dict[str, list[str]], limits: HttpLimits) -> bytes | Refusal:
        """Return the body, or why it is refused."""
        too_large = Refusal(413, f"The body has more than {limits.body_bytes} bytes", kind="size")
        length = headers.get("content-length", ["0"])[0]
        if length.isdigit() and int(length) > limits.body_bytes:
            return too_large
        until = asyncio.get_running_loop().time() + limits.body_s
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout_at(until) as timeout:
                while not self._ended:
                    event = await self()
                    if event["type"] == "http.disconnect":
                        return _GONE
                    if part := event.get("body", b""):
                        parts.append(part)
                        size += len(part)
                        if size > limits.body_bytes:
                            return too_large
                        timeout.reschedule(until + size / BYTES_PER_S)
        except TimeoutError:
            return Refusal(408, "The body did not arrive in time", kind="time")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def discard(self) -> None:
        """Read the rest of the body, for a moment.

        A client that still sends may not see a response, and hypercorn ends an HTTP/2 connection
        with all its streams when a body arrives after the response.
        """
        if self._ended:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(DISCARD_S):
                while not self._ended:
                    await self()
