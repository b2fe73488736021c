"""The body of a response while it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class ResponseBody:
    """Collects what has arrived until it is taken.

    `taken(size)` is called with the number of bytes that may be received in addition.
    """

    def __init__(self, taken: Callable[[int], None]) -> None:
        self.size: int = 0
        self.has_ended: bool = False
        self._parts: list[bytes] = []
        self._taken = taken
        self._owed = 0  # bytes to report as taken; padding counts, too
        self._error: Exception | None = None
        self._arrived: asyncio.Future[None] | None = None

    def add(self, data: bytes, counted: int | None = None) -> None:
        """Add bytes; `counted` is how many of them flow control counts."""
        self._parts.append(data)
        self.size += len(data)
        self._owed += len(data) if counted is None else counted
        self._wake()

    def end(self, error: Exception | None = None) -> None:
        """End the body; with an error if it is not complete."""
        if not self.has_ended:
            self.has_ended, self._error = True, error
            self._wake()

    async def take(self) -> bytes:
        """Return what has arrived, at least one byte, or nothing at the end; raise its error."""
        while not self._parts:
            if self._error is not None:
                raise self._error
            if self.has_ended:
                return b""
            self._arrived = asyncio.get_running_loop().create_future()
            try:
                await self._arrived
            finally:
                self._arrived = None
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self.size = 0
        owed, self._owed = self._owed, 0
        self._taken(owed)
        return data

    def drop(self) -> int:
        """Drop what has not been taken; return how many bytes of it flow control counts."""
        self._parts.clear()
        owed, self._owed = self._owed, 0
        return owed

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)
