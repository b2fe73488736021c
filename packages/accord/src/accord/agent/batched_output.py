"""Stores the updates of a session in batches: streaming does not wait for the store."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import Context, copy_context

from msgspec import Struct

from accord.agent.stored_output import Send, StoredOutput, UpdateWriter
from accord.agent.updates import (
    MessageUpdate,
    TerminalOutputUpdate,
    ToolContentUpdate,
    Update,
)
from accord.connection.routes import trace
from accord.errors import TransportError

log: logging.Logger = logging.getLogger("accord.agent")

_WAITING_CHARACTERS = 1 << 18  # of text that waits for the store, until its sender waits, too
_CHUNK_COST = 64  # characters that a chunk counts in addition to its text
_FINISH_S = 5.0


class _Item(Struct, eq=False):
    """An update that is not stored yet; without one, the item only marks a place in the queue."""

    update: Update | None
    send: Send | None = None
    cost: int = 0
    context: Context | None = None  # if the update belongs to a traced request
    done: asyncio.Future[None] | None = None  # after it is sent; None if nothing waits for it


class BatchedOutput(StoredOutput):
    """Stores what has been published while the previous batch was stored, and then sends it.

    Chunks of text return at once. A failure to store drops all updates that wait, is raised by
    the next call, and by `flush` before the turn ends: what was sent is in the store.
    """

    def __init__(self, writer: UpdateWriter) -> None:
        super().__init__(writer)
        self._queue: deque[_Item] = deque()
        self._waiting = 0  # the cost of the queue
        self._task: asyncio.Task[None] | None = None
        self._error: Exception | None = None  # of updates that nothing waited for
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def publish(self, update: Update, send: Send) -> None:
        self._raise_error()
        size = _text_size(update)
        if size is None:
            await self._wait(_Item(update, send, context=_context()))
            return
        self._add(_Item(update, send, size + _CHUNK_COST, _context()))
        if self._waiting > _WAITING_CHARACTERS:
            self._has_room.clear()
            await self._has_room.wait()

    async def store(self, update: Update) -> None:
        try:
            await self._wait(_Item(update))
        except Exception:
            self._error = None  # reported now, once
            raise
        self._raise_error()

    async def flush(self) -> None:
        if self._task is not None:
            await self._wait(_Item(None))
        self._raise_error()

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[None, None]:
        await self.flush()
        async with self._lock:
            yield

    async def release(self) -> None:
        if self._task is not None:
            _, unfinished = await asyncio.wait([self._task], timeout=_FINISH_S)
            for task in unfinished:
                log.error("! updates of a session could not be stored before it was closed")
                task.cancel()
        await super().release()

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def _wait(self, item: _Item) -> None:
        item.done = asyncio.get_running_loop().create_future()
        self._add(item)
        await item.done

    def _add(self, item: _Item) -> None:
        self._queue.append(item)
        self._waiting += item.cost
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="accord: stored output")

    async def _run(self) -> None:
        try:
            while self._queue:
                async with self._lock:
                    await self._write_all()
        except asyncio.CancelledError:
            self._drop(TransportError("The session was closed before the update was stored"))
            raise
        finally:
            self._task = None

    async def _write_all(self) -> None:
        """Store what is in the queue with one write, and then send it."""
        batch = tuple(self._queue)
        try:
            await self._writer.write([item.update for item in batch if item.update is not None])
        except Exception as exc:  # noqa: BLE001  # of any store: the callers raise it
            self._drop(exc)
            return
        for item in batch:
            self._queue.popleft()
            self._waiting -= item.cost
            error: Exception | None = None
            try:
                if item.send is not None:
                    await _send(item.send, item.context)
            except Exception as exc:  # noqa: BLE001  # the callers raise it; later updates are stored
                error = exc
            _end(item, error)
            if error is not None and item.done is None:
                self._error = error
        if self._waiting <= _WAITING_CHARACTERS // 2:
            self._has_room.set()

    def _drop(self, error: Exception) -> None:
        """Drop the updates that wait: nothing may be sent after one that was not stored."""
        if any(item.done is None for item in self._queue):
            self._error = error
        while self._queue:
            _end(self._queue.popleft(), error)
        self._waiting = 0
        self._has_room.set()


async def _send(send: Send, context: Context | None) -> None:
    if context is None:
        await send()
    else:
        await asyncio.get_running_loop().create_task(send(), context=context)


def _end(item: _Item, error: Exception | None) -> None:
    if item.done is None or item.done.done():
        return
    if error is None:
        item.done.set_result(None)
    else:
        item.done.set_exception(error)


def _context() -> Context | None:
    """Return the context to send in; None outside of traced requests."""
    return None if trace() is None else copy_context()


def _text_size(update: Update) -> int | None:
    """Return the length of a chunk of text; None for other updates, which are waited for."""
    match update:
        case MessageUpdate(content=(str() as text,)) | ToolContentUpdate(content=str() as text):
            return len(text)
        case TerminalOutputUpdate(data=data):
            return len(data)
        case _:
            return None
