"""Stores the updates of a session and sends each one after it is stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeAlias

from accord.agent.updates import Update

Send: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class UpdateWriter(Protocol):
    """Writes the updates of a session to its store; see `SessionWriter`."""

    @property
    def is_batched(self) -> bool:
        """Whether writing many updates at once takes hardly longer than writing one."""
        ...

    def write(self, updates: Sequence[Update]) -> Awaitable[None]:
        """Write updates, durably when this returns."""
        ...

    async def release(self) -> None:
        """Stop writing."""
        ...


class StoredOutput:
    """Stores and sends one update at a time."""

    def __init__(self, writer: UpdateWriter) -> None:
        self._writer = writer
        self._lock = asyncio.Lock()  # held while an update is stored and sent: in one order

    async def publish(self, update: Update, send: Send) -> None:
        """Store an update, then call `send`."""
        async with self._lock:
            await self._writer.write((update,))
            await send()

    async def store(self, update: Update) -> None:
        """Store an update that is not sent, or is sent by the caller after this."""
        await self._writer.write((update,))

    async def flush(self) -> None:
        """Wait until all updates are stored and sent."""

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[None, None]:
        """Hold back updates during the block, so that nothing interrupts a replay."""
        async with self._lock:
            yield

    async def release(self) -> None:
        """Stop writing; nothing is published after this."""
        await self._writer.release()
