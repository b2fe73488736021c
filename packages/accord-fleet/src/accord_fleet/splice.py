"""Connections that are passed on byte by byte, for Unix sockets of sandboxes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_CHUNK = 65536
_HEAD_BYTES = 65536


@contextlib.asynccontextmanager
async def serve_unix(
    path: Path, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
) -> AsyncGenerator[None]:
    """Serve connections at a Unix socket in the block, and end them after it.

    The socket is in a directory that only the caller can enter. A connection that fails
    is closed.
    """
    running: set[asyncio.Task[None]] = set()

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            await serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass  # its client sees that it is closed
        finally:
            running.discard(task)
            writer.close()

    server = await asyncio.start_unix_server(serve_one, path, limit=_HEAD_BYTES)
    try:
        yield
    finally:
        server.close()
        tasks = tuple(running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


@contextlib.asynccontextmanager
async def serve_relay(path: Path, host: str, port: int) -> AsyncGenerator[None]:
    """Lead a Unix socket to a port in the block, in every event loop."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        outer_reader, outer_writer = await asyncio.open_connection(host, port)
        try:
            await splice((reader, outer_writer), (outer_reader, writer))
        finally:
            outer_writer.close()

    async with serve_unix(path, relay):
        yield


async def splice(*ways: Streams) -> None:
    """Copy from each reader to its writer until all have ended."""
    async with asyncio.TaskGroup() as group:
        for source, target in ways:
            group.create_task(_copy(source, target))


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(_CHUNK):
            target.write(data)
            await target.drain()
        if target.can_write_eof():
            target.write_eof()
    except OSError:
        target.close()
