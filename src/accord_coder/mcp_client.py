"""The MCP servers of a session: started with its first prompt, stopped at its end."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, TextIO, cast

import httpx2
from mcp import Client, Implementation, MCPError, StdioServerParameters, Tool, stdio_client
from mcp.client.session import IncomingMessage
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.types import CONNECTION_CLOSED, ToolListChangedNotification

from accord import (
    AccordError,
    McpServerAcp,
    McpServerHttp,
    McpServerSse,
    McpServerStdio,
    __version__,
)
from accord.types.mcp import McpServer

__all__ = ("McpConnection", "McpError", "McpServers")

log = logging.getLogger("accord_coder")

_START_S = 30.0  # to start, to initialize and to list the tools
_CLOSE_S = 10.0  # to stop, before the connection is aborted
_MAX_PAGES = 50


class McpError(AccordError):
    """A server failed; the text is for the user and the model."""


class McpConnection:
    """One server: its tools, and the task that owns its connection."""

    def __init__(self, server: McpServer, cwd: str) -> None:
        self.server = server
        self.name = server.name
        self.tools: tuple[Tool, ...] = ()
        self.is_lost = False
        self._cwd = cwd
        self._client: Client | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"mcp {server.name}")

    async def ready(self) -> None:
        """Wait until its tools are known; raise `McpError`."""
        try:
            async with asyncio.timeout(_START_S):
                await asyncio.shield(self._ready)
        except TimeoutError:
            raise McpError(f"it did not respond within {_START_S:.0f} s") from None

    async def call(self, tool: str, arguments: dict[str, Any], progress: Any) -> Any:
        """Call a tool and return its result; a cancel is forwarded. Raises `McpError`."""
        if self._client is None:
            raise McpError("it is not connected")
        try:
            return await self._client.call_tool(tool, arguments, progress_callback=progress)
        except MCPError as exc:
            self.is_lost = self._task.done() or exc.code == CONNECTION_CLOSED
            raise McpError(exc.message) from exc
        except (RuntimeError, ValueError, OSError) as exc:
            log.warning("! the MCP server %s: %s", self.name, exc)
            raise McpError("its response is not valid") from exc

    def stop(self) -> asyncio.Task[None]:
        """Stop it; return the task to wait for."""
        self._stop.set()
        if not self._ready.done():
            self._task.cancel()
        return self._task

    async def _run(self) -> None:
        """Own the connection from opening to closing: both must run in one task."""
        try:
            logging.getLogger("mcp.client.stdio").addFilter(_drop_traceback)
            async with Client(
                _transport(self.server, self._cwd),
                client_info=Implementation(name="accord-coder", version=__version__),
                message_handler=self._on_message,
                cache=None,
            ) as client:
                self._client = client
                await self._list(client)
                self._ready.set_result(None)
                await self._follow(client)
        except Exception as exc:  # noqa: BLE001  # the session continues without it
            if self._ready.done():
                log.warning("! the MCP server %s has stopped: %s", self.name, _reason(exc))
            else:
                self._fail(_reason(exc))
        finally:
            self._client, self.is_lost = None, True
            if not self._ready.done():
                self._fail("it was stopped")

    def _fail(self, why: str) -> None:
        self._ready.set_exception(McpError(why))
        self._ready.exception()  # retrieved, in case nothing waits for it

    async def _list(self, client: Client) -> None:
        found: list[Tool] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            found += page.tools
            if (cursor := page.next_cursor) is None:
                break
        self.tools = tuple(found)

    async def _follow(self, client: Client) -> None:
        """List the tools again whenever they have changed, until `stop` is called."""
        async with asyncio.TaskGroup() as group:
            waits = {
                group.create_task(self._stop.wait()),
                group.create_task(self._list_on_change(client)),
            }
            listens = group.create_task(self._listen(client))
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for task in (*waits, listens):
                task.cancel()

    async def _list_on_change(self, client: Client) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._list(client)

    async def _listen(self, client: Client) -> None:
        """Subscribe to changes of a server that notifies only subscribers."""
        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        with suppress(ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._changed.set()

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._changed.set()


def _drop_traceback(record: logging.LogRecord) -> bool:
    """Log one line, without a traceback, for each invalid line that a server prints."""
    record.exc_info = record.exc_text = None
    return True


def _transport(server: McpServer, cwd: str) -> AbstractAsyncContextManager[Any]:
    match server:
        case McpServerStdio(_, command, args, env):
            # It gets the basic environment variables, and no API key.
            parameters = StdioServerParameters(
                command=command, args=list(args), env=dict(env), cwd=cwd
            )
            return stdio_client(parameters, errlog=_stderr())
        case McpServerHttp(_, url, headers):
            return _http(url, dict(headers))
        case McpServerSse(_, url, headers):
            return sse_client(url, headers=dict(headers))
        case McpServerAcp():
            raise TypeError("The agent does not advertise MCP over ACP")


@asynccontextmanager
async def _http(url: str, headers: dict[str, str]) -> AsyncGenerator[Any, None]:
    timeout = httpx2.Timeout(_START_S, read=300.0)
    async with (
        httpx2.AsyncClient(headers=headers, timeout=timeout) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams


def _stderr() -> TextIO:
    """Return the stream for the stderr of servers: never the one that the client reads."""
    try:
        sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return _devnull()
    return sys.stderr


def _devnull() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123  # as long as we run


def _reason(exc: BaseException) -> str:
    """Return the innermost error of exception groups, as one line."""
    inner = exc
    while isinstance(inner, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", inner).exceptions[0]
    match inner:
        case FileNotFoundError():
            return "the command does not exist"
        case OSError(strerror=str() as reason):
            return reason
        case _:
            return " ".join(str(inner).split())[:300] or type(inner).__name__


class McpServers:
    """All the servers of a session."""

    def __init__(self, servers: Sequence[McpServer], cwd: str) -> None:
        self._servers = servers
        self._cwd = cwd
        self._open: dict[str, McpConnection] = {}
        self._failed: set[str] = set()
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def connections(self) -> tuple[McpConnection, ...]:
        """The connections of the running servers."""
        return tuple(self._open.values())

    async def connect(self) -> dict[str, str]:
        """Start all servers that do not run; return the new failures by name."""
        for server in self._servers:
            known = self._open.get(server.name)
            if known is not None and known.is_lost:
                self._closing.add(known.stop())
            if (known is None or known.is_lost) and server.name not in self._failed:
                self._open[server.name] = McpConnection(server, self._cwd)
        connections = self.connections
        results = await asyncio.gather(
            *(connection.ready() for connection in connections), return_exceptions=True
        )
        failed: dict[str, str] = {}
        for connection, result in zip(connections, results, strict=True):
            if isinstance(result, McpError):
                failed[connection.name] = str(result)
                self._closing.add(self._open.pop(connection.name).stop())
            elif isinstance(result, BaseException):
                raise result
        self._failed |= failed.keys()
        return failed

    async def aclose(self) -> None:
        """Stop all servers concurrently."""
        self._closing |= {connection.stop() for connection in self._open.values()}
        self._open.clear()
        if not self._closing:
            return
        _, late = await asyncio.wait(self._closing, timeout=_CLOSE_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        self._closing.clear()
