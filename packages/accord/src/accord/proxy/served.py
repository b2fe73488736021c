"""The transport to what is served in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from accord.errors import ConnectionClosed
from accord.transports.base import Frame, Receiver, Transport
from accord.transports.memory import pair


class ServedTransport(Transport):
    """Connects to `serve(transport)`, which starts with this transport and ends with it.

    An exception that it raises or returns is how the peer ended.
    """

    def __init__(self, serve: Callable[[Transport], Coroutine[Any, Any, Any]]) -> None:
        self._serve = serve
        self._here, self._there = pair(frame_bytes=self.frame_bytes)
        self._serving: asyncio.Task[Any] | None = None
        self._is_closed = False

    async def start(self, receiver: Receiver) -> None:
        if self._is_closed:
            raise ConnectionClosed("The transport was closed")
        await self._here.start(receiver)
        self._serving = asyncio.create_task(self._run(), name="accord served")

    async def _run(self) -> Any:
        try:
            return await self._serve(self._there)
        finally:
            await self._there.aclose()

    def write(self, frames: Sequence[Frame]) -> None:
        self._here.write(frames)

    @property
    def congested(self) -> bool:
        return self._here.congested

    def pause_reading(self) -> None:
        self._here.pause_reading()

    def resume_reading(self) -> None:
        self._here.resume_reading()

    async def exit_error(self) -> Exception | None:
        """Return the exception with which it ended."""
        if self._serving is None:
            return None
        await asyncio.wait([self._serving])
        if self._serving.cancelled():
            return None
        ended = self._serving.exception() or self._serving.result()
        return ended if isinstance(ended, Exception) else None

    async def aclose(self) -> None:
        self._is_closed = True
        await self._here.aclose()
        if self._serving is None:
            return
        try:
            await asyncio.wait([self._serving])
        except asyncio.CancelledError:
            self._serving.cancel()
            raise
        await self.exit_error()  # an exception must not be reported as never retrieved
