"""Texts of files, read in threads: a few at a time, and only while a caller waits."""

from __future__ import annotations

import asyncio
import threading

from accord.local.files import Roots

READS_AT_ONCE = 4  # each holds `MAX_BYTES` at most


class Reads:
    """The reads of one owner; those beyond `READS_AT_ONCE` wait for their turn."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(READS_AT_ONCE)

    async def read(
        self, roots: Roots, path: str, line: int | None = None, limit: int | None = None
    ) -> str:
        """Return what `Roots.read` returns; a cancelled read stops soon."""
        async with self._free:
            stop = threading.Event()
            try:
                return await asyncio.to_thread(roots.read, path, line, limit, stop=stop.is_set)
            finally:
                stop.set()
