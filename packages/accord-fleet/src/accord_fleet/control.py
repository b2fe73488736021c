"""How a run is stopped: first no more tasks, then no more turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

from accord_fleet.types.task import WorkItem

OnWait = Callable[[str, str | None], None]
"""Is called with what waits, and why; None when it no longer does. It returns quickly."""


class Control:
    """Stops a run; used in its event loop."""

    def __init__(self) -> None:
        self.stopping: asyncio.Event = asyncio.Event()
        """Set when no further tasks are started."""
        self.cancelling: asyncio.Event = asyncio.Event()
        """Set when running turns are cancelled."""
        self.on_begin: Callable[[WorkItem], Awaitable[None]] | None = None
        """Is awaited before an attempt begins; see `begin`."""
        self.on_wait: OnWait | None = None
        """Is called when an agent or a provider begins to wait, or no longer waits; see `wait`."""
        self._callbacks: dict[Callable[[], None], None] = {}

    @property
    def is_stopping(self) -> bool:
        """Whether no further tasks are started."""
        return self.stopping.is_set()

    @property
    def is_cancelling(self) -> bool:
        """Whether running turns are cancelled."""
        return self.cancelling.is_set()

    def stop(self) -> None:
        """Start no further tasks; running attempts continue."""
        self.stopping.set()

    def cancel(self) -> None:
        """Cancel running turns, too."""
        self.stopping.set()
        self.cancelling.set()
        for callback in list(self._callbacks):
            callback()

    async def begin(self, item: WorkItem) -> None:
        """Note that an attempt begins now; each engine calls this before it runs an attempt."""
        if self.on_begin is not None:
            await self.on_begin(item)

    def wait(self, what: str, why: str | None) -> None:
        """Say why an agent or a provider waits; None: it no longer does."""
        if self.on_wait is not None:
            self.on_wait(what, why)

    @contextmanager
    def on_cancel(self, callback: Callable[[], None]) -> Generator[None]:
        """Call a function when turns are cancelled while the block runs."""
        self._callbacks[callback] = None
        if self.is_cancelling:
            callback()
        try:
            yield
        finally:
            self._callbacks.pop(callback, None)
