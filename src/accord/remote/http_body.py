"""Reads the body of a POST, within its limits."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from accord.remote.access import Refusal
from accord.remote.asgi_types import Receive
from accord.remote.http_limits import HttpLimits

__all__ = ("read_body",)

BYTES_PER_S = 1024  # a body that arrives faster has more time (T9)
DISCARD_S = 1.0  # for the rest of a body that is too large
_GONE = Refusal(499, "The client has left")


async def read_body(
    headers: dict[str, list[str]], receive: Receive, limits: HttpLimits
) -> bytes | Refusal:
    """Return the body, or why it is refused."""
    length = headers.get("content-length", ["0"])[0]
    too_large = Refusal(413, f"The body has more than {limits.body_bytes} bytes", kind="size")
    if length.isdigit() and int(length) > limits.body_bytes:
        await _discard(receive)
        return too_large
    loop = asyncio.get_running_loop()
    until = loop.time() + limits.body_s
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout_at(until) as timeout:
            while True:
                event = await receive()
                if event["type"] == "http.disconnect":
                    return _GONE
                part = event.get("body", b"")
                if part:
                    parts.append(part)
                    size += len(part)
                if not event.get("more_body", False):
                    break
                if size > limits.body_bytes:
                    await _discard(receive)
                    return too_large
                timeout.reschedule(until + size / BYTES_PER_S)
    except TimeoutError:
        return Refusal(408, "The body did not arrive in time", kind="time")
    if size > limits.body_bytes:
        return too_large
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _discard(receive: Receive) -> None:
    """Read on for a moment: clients that still send do not see a response."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_S):
            while (event := await receive())["type"] == "http.request" and event.get("more_body"):
                pass
