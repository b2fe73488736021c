"""The lifespan of an MCP server, which several requests share."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp.server import Server

from accord.mcp.closing import wait_stopped


class ServerLifespan:
    """Enters the lifespan of a server when it is first needed, and leaves it in the same task."""

    def __init__(self, server: Server[Any]) -> None:
        self._server = server
        self._state: asyncio.Future[Any] | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()

    async def state(self) -> Any:
        """Return what the lifespan yields; raise what it raises."""
        if self._state is None:
            self._state = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._run(self._state), name="accord mcp lifespan")
        return await asyncio.shield(self._state)

    async def _run(self, state: asyncio.Future[Any]) -> None:
        try:
            async with self._server.lifespan(self._server) as value:
                state.set_result(value)
                await self._closed.wait()
        except Exception as error:
            if state.done():
                raise
            state.set_exception(error)
            state.exception()  # the task ends now; requests still get it
        finally:
            state.cancel()

    async def aclose(self) -> None:
        """Leave the lifespan."""
        self._closed.set()
        if self._task is None:
            return
        if self._state is not None and not self._state.done():
            self._task.cancel()  # it has not been entered yet
        await wait_stopped([self._task], f"the lifespan of the MCP server {self._server.name!r}")
        if not self._task.done() or self._task.cancelled():
            return
        if (error := self._task.exception()) is not None:
            raise error
