"""The fastest connection that asyncio allows, without bounds, lanes, rules or a way to close.

Lines are split by hand and dispatched while they arrive; requests run as tasks; notifications are
awaited one after another. The first write of a loop turn leaves at once, later ones are joined.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, BinaryIO

from floor import codec
from msgspec import UNSET

READ_BYTES = 65536  # asyncio's 256 KiB make malloc map and unmap a buffer at every read
JOIN_BYTES = 65536
QUEUED_READS = 8

Handler = Callable[[Any], Awaitable[Any]]


class Connection(asyncio.Protocol):
    """Both directions of a JSON-RPC connection over a pair of pipes."""

    def __init__(self, handlers: dict[str, Handler]) -> None:
        self.handlers = handlers
        self.loop = asyncio.get_running_loop()
        self.last_id = 0
        self.pending: dict[int, tuple[str, asyncio.Future[Any]]] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.partial: list[bytes] = []
        self.queue: deque[list[bytes]] = deque()
        self.waiter: asyncio.Future[None] | None = None
        self.consuming = self.reading_paused = self.ended = False
        self.out: list[bytes] = []
        self.out_bytes = 0
        self.written_this_turn = self.writing_paused = False
        self.blocked: list[asyncio.Future[None]] = []
        self.reader: Any = None
        self.writer: Any = None
        self.closed = self.loop.create_task(self._consume())

    # Reading.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.reader = transport
        self.reader.max_size = READ_BYTES

    def data_received(self, data: bytes) -> None:
        if b"\n" not in data:
            self.partial.append(data)
            return
        if self.partial:
            self.partial.append(data)
            data = b"".join(self.partial)
            self.partial.clear()
        lines = data.split(b"\n")
        del data  # a large line exists once from here
        rest = lines.pop()
        if rest:
            self.partial.append(rest)
        if not self.queue and not self.consuming:
            lines = self._dispatch_until_notification(lines)
            if not lines:
                return
        self.queue.append(lines)
        if self.waiter is not None:
            self.consuming = True
            self._wake()
        elif len(self.queue) > QUEUED_READS and not self.reading_paused:
            self.reading_paused = True
            self.reader.pause_reading()

    def eof_received(self) -> None:
        self.ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.eof_received()

    def _wake(self) -> None:
        if self.waiter is not None:
            waiter, self.waiter = self.waiter, None
            waiter.set_result(None)

    def _dispatch_until_notification(self, lines: list[bytes]) -> list[bytes]:
        for index, line in enumerate(lines):
            message = codec.decode_line(line)
            if message.method is UNSET:
                self._settle(message)
            elif message.id is not UNSET:
                self._start(message)
            else:
                return lines[index:]
        return []

    async def _consume(self) -> None:
        queue = self.queue
        while True:
            while queue:
                for line in queue.popleft():
                    message = codec.decode_line(line)
                    method = message.method
                    if method is UNSET:
                        self._settle(message)
                    elif message.id is UNSET:
                        await self.handlers[method](codec.decode_params[method](message.params))
                    else:
                        self._start(message)
                if self.reading_paused and len(queue) < QUEUED_READS // 2:
                    self.reading_paused = False
                    self.reader.resume_reading()
            if self.ended:
                return
            self.consuming = False
            self.waiter = self.loop.create_future()
            await self.waiter

    def _settle(self, message: Any) -> None:
        method, future = self.pending.pop(message.id)
        if message.error is UNSET:
            future.set_result(codec.decode_result[method](message.result))
        else:
            future.set_exception(RuntimeError(message.error.message))

    def _start(self, message: Any) -> None:
        params = codec.decode_params[message.method](message.params)
        task = self.loop.create_task(self._run(message.id, message.method, params))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _run(self, number: Any, method: str, params: Any) -> None:
        try:
            result = await self.handlers[method](params)
        except Exception as exc:
            await self._send(codec.error_response(number, str(exc)))
        else:
            await self._send(codec.response(number, result))

    # Writing.

    async def notify(self, method: str, params: Any) -> None:
        await self._send(codec.notification(method, params))

    async def request(self, method: str, params: Any) -> Any:
        self.last_id += 1
        future = self.loop.create_future()
        self.pending[self.last_id] = (method, future)
        await self._send(codec.request(self.last_id, method, params))
        return await future

    async def _send(self, line: bytes) -> None:
        if self.written_this_turn:
            self.out.append(line)
            self.out_bytes += len(line)
            if self.out_bytes > JOIN_BYTES:
                self._flush()
        else:
            self.written_this_turn = True
            self.loop.call_soon(self._end_turn)
            self.writer.write(line)
        if self.writing_paused:
            future = self.loop.create_future()
            self.blocked.append(future)
            await future

    def _end_turn(self) -> None:
        self.written_this_turn = False
        self._flush()

    def _flush(self) -> None:
        if self.out:
            self.writer.write(b"".join(self.out))
            self.out.clear()
            self.out_bytes = 0

    def pause_writing(self) -> None:
        self.writing_paused = True

    def resume_writing(self) -> None:
        self.writing_paused = False
        for future in self.blocked:
            if not future.done():
                future.set_result(None)
        self.blocked.clear()


class _WriteSide(asyncio.BaseProtocol):
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.connection.writer = transport

    def pause_writing(self) -> None:
        self.connection.pause_writing()

    def resume_writing(self) -> None:
        self.connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.connection.resume_writing()


async def connect(
    handlers: dict[str, Handler], incoming: BinaryIO, outgoing: BinaryIO
) -> Connection:
    """Start a connection over two unbuffered pipes."""
    connection = Connection(handlers)
    loop = asyncio.get_running_loop()
    await loop.connect_write_pipe(lambda: _WriteSide(connection), outgoing)
    await loop.connect_read_pipe(lambda: connection, incoming)
    return connection
