"""The order of messages that are sent by POST."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeAlias

from accord.transports.base import HIGH_BYTES, LOW_BYTES, Frame
from accord.transports.http_messages import Outgoing

FLUSH_S = 2.0  # without progress, for the server to accept what was written before `aclose`
CLOSE_S = 10.0  # for all of it

_Key: TypeAlias = tuple[bool, str | None]  # whether it is an answer; the session


class PostQueues:
    """Sends the messages of each session one after another, and answers apart from them.

    `send` sends one message and returns once it is accepted; `spawn` runs a coroutine as a task.
    A server may hold back the POST of a request: the answers that it waits for still arrive.
    """

    def __init__(
        self,
        send: Callable[[Outgoing, Frame], Awaitable[None]],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        writable: Callable[[], None],
    ) -> None:
        self.congested: bool = False
        self.may_send: asyncio.Event = asyncio.Event()
        self._send = send
        self._spawn = spawn
        self._writable = writable
        self._queues: dict[_Key, deque[tuple[Outgoing, Frame]]] = {}
        self._bytes = 0  # that wait
        self._pending = 0  # messages that were added and not yet accepted
        self._accepted = 0
        self._all_sent = asyncio.Event()
        self._all_sent.set()

    def add(self, message: Outgoing, frame: Frame, session: str | None) -> None:
        """Send a message after those of the same kind and session."""
        key = (message.kind == "answer", session)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = deque()
            self._spawn(self._send_all(key, queue))
        queue.append((message, frame))
        self._pending += 1
        self._all_sent.clear()
        self._bytes += len(frame)
        self.congested = self.congested or self._bytes > HIGH_BYTES

    def clear(self) -> None:
        """Drop the messages that wait: the connection has ended."""
        for queue in self._queues.values():
            queue.clear()
        self._pending = 0
        self._all_sent.set()
        self._count_taken(self._bytes)

    async def flush(self) -> None:
        """Wait until all messages are accepted, as long as the server accepts some."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                before = -1
                while self._accepted > before and not self._all_sent.is_set():
                    before = self._accepted
                    with suppress(TimeoutError):
                        async with asyncio.timeout(FLUSH_S):
                            await self._all_sent.wait()

    async def _send_all(self, key: _Key, queue: deque[tuple[Outgoing, Frame]]) -> None:
        try:
            await self.may_send.wait()
            while queue:
                message, frame = queue.popleft()
                # A message that the server holds back does not count: answers must pass.
                self._count_taken(len(frame))
                await self._send(message, frame)
                self._accepted += 1
                self._pending = max(self._pending - 1, 0)
                if not self._pending:
                    self._all_sent.set()
        finally:
            del self._queues[key]

    def _count_taken(self, size: int) -> None:
        self._bytes -= size
        if self.congested and self._bytes <= LOW_BYTES:
            self.congested = False
            self._writable()
