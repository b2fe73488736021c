"""The MCP servers of a session: connected when they are first needed, until the session closes.

`acp_transport` makes a transport of the library `mcp` from the servers of the client.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from types import TracebackType
from typing import Any, TextIO, TypeAlias, cast

import anyio
import httpx2
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectSendStream
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.session import IncomingMessage
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.message import SessionMessage
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp.types import (
    CLIENT_INFO_META_KEY,
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    CallToolResult,
    DiscoverResult,
    ErrorData,
    Implementation,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    LoggingLevel,
    LoggingMessageNotificationParams,
    RequestId,
    Tool,
    ToolListChangedNotification,
)
from msgspec import Struct
from pydantic import ValidationError

from accord.errors import (
    AccordError,
    LocalProtocolError,
    McpBackendFailed,
    McpServerError,
    RequestError,
    TransportError,
)
from accord.mcp.consumer import MCP_VERSION, McpConsumer
from accord.text.excerpt import one_line
from accord.text.lenient_json import is_object
from accord.types.mcp import McpServer, McpServerAcp, McpServerHttp, McpServerSse, McpServerStdio
from accord.wire.base import UNSET
from accord.wire.shared import MessageMcpResult

# MCP servers of the peer as a transport of the library `mcp`.

log: logging.Logger = logging.getLogger("accord.mcp")

_MAX_QUEUED = 1000  # notifications that the library has not taken yet


class _Failure(dict[str, Any]):
    """The `data` of an error that is not the server's; `error` says why nothing came from it."""

    def __init__(self, error: AccordError) -> None:
        data = error.data if isinstance(error, RequestError) else None
        super().__init__(data if is_object(data) else {})
        self.error = error


def binding_error(error: MCPError) -> AccordError | None:
    """Return why a request did not reach its MCP server, or was not answered by it.

    Returns None if the error is the server's own, whatever its code (R-MOA-12).
    """
    data = error.error.data
    return data.error if isinstance(data, _Failure) else None


@asynccontextmanager
async def acp_transport(consumer: McpConsumer, server_id: str) -> AsyncGenerator[Any, None]:
    """Return a transport for `mcp.Client`, to use with `mode=MCP_VERSION`.

    Each request is sent on its own. Leaving the block cancels those that run.
    """
    answers, received = anyio.create_memory_object_stream[SessionMessage | Exception](_MAX_QUEUED)
    with answers, received:
        async with anyio.create_task_group() as tasks:
            yield received, _Requests(consumer, server_id, answers, tasks)
            tasks.cancel_scope.cancel()


async def discover(
    consumer: McpConsumer, server_id: str, client_info: Implementation
) -> DiscoverResult | None:
    """Return what a server says about itself, None if it says nothing.

    Raises `RequestError` if the server cannot be reached, `MCPError` if it refuses.
    """
    info = client_info.model_dump(by_alias=True, mode="json", exclude_none=True)
    params = {"_meta": {CLIENT_INFO_META_KEY: info}}
    outcome = await consumer.request(server_id, "server/discover", params, _ignore)
    if not isinstance(outcome, MessageMcpResult):
        if outcome.error.code == METHOD_NOT_FOUND:
            return None
        raise MCPError(outcome.error.code, outcome.error.message)
    try:
        found = DiscoverResult.model_validate(outcome.result)
    except ValidationError:
        return None
    return found if MCP_VERSION in found.supported_versions else None


def _ignore(_method: str, _params: Any) -> None: ...


class _Requests:
    """The stream that the library writes to: each request is sent by a task of its own."""

    def __init__(
        self,
        consumer: McpConsumer,
        server_id: str,
        answers: MemoryObjectSendStream[SessionMessage | Exception],
        tasks: TaskGroup,
    ) -> None:
        self._consumer = consumer
        self._server_id = server_id
        self._answers = answers
        self._tasks = tasks
        self._running: dict[RequestId, anyio.CancelScope] = {}
        self._dropped = False

    async def send(self, item: SessionMessage, /) -> None:
        """Start a request, or cancel one. MCP 2026-07-28 has nothing else to send."""
        message = item.message
        if isinstance(message, JSONRPCRequest):
            self._running[message.id] = scope = anyio.CancelScope()
            self._tasks.start_soon(self._run, message, scope)
        elif isinstance(message, JSONRPCNotification) and message.params is not None:
            scope = self._running.get(message.params.get("requestId", ""))
            if message.method == "notifications/cancelled" and scope is not None:
                scope.cancel()  # sends `$/cancel_request` (R-MOA-11)

    async def aclose(self) -> None:
        """Cancel the requests that run."""
        self._tasks.cancel_scope.cancel()

    async def __aenter__(self) -> _Requests:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _run(self, request: JSONRPCRequest, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                await self._answers.send(SessionMessage(await self._answer(request)))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the library has closed its side
        finally:
            if self._running.get(request.id) is scope:
                del self._running[request.id]

    async def _answer(self, request: JSONRPCRequest) -> JSONRPCMessage:
        def notified(method: str, params: dict[str, Any] | None) -> None:
            self._pass_on(request.id, method, params)

        try:
            outcome = await self._consumer.request(
                self._server_id, request.method, request.params, notified
            )
            if isinstance(outcome, MessageMcpResult):
                if is_object(outcome.result):
                    return JSONRPCResponse(jsonrpc="2.0", id=request.id, result=outcome.result)
                raise McpBackendFailed("The result of the MCP server is not an object")
        except AccordError as exc:
            return JSONRPCError(jsonrpc="2.0", id=request.id, error=_error_data(exc))
        inner = outcome.error
        data = None if inner.data is UNSET else inner.data
        error = ErrorData(code=inner.code, message=inner.message, data=data)
        return JSONRPCError(jsonrpc="2.0", id=request.id, error=error)

    def _pass_on(self, request_id: RequestId, method: str, params: dict[str, Any] | None) -> None:
        """Pass a notification to the library; drop it if the library is far behind."""
        meta = None if params is None else params.get("_meta")
        if params is not None and is_object(meta) and SUBSCRIPTION_ID_META_KEY in meta:
            # The library knows a subscription by the id of its own request.
            params = params | {"_meta": meta | {SUBSCRIPTION_ID_META_KEY: request_id}}
        message = JSONRPCNotification(jsonrpc="2.0", method=method, params=params)
        try:
            self._answers.send_nowait(SessionMessage(message))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        except anyio.WouldBlock:
            if not self._dropped:
                self._dropped = True
                log.warning("! an MCP server notifies too fast: notifications are dropped")


def _error_data(error: AccordError) -> ErrorData:
    match error:
        case RequestError(code=code):
            return ErrorData(code=code, message=error.text, data=_Failure(error))
        case TransportError():
            return ErrorData(code=CONNECTION_CLOSED, message=str(error), data=_Failure(error))
        case _:
            return ErrorData(code=INTERNAL_ERROR, message=str(error), data=_Failure(error))


# Gets the progress, the total if it is known, and what the server does.
OnProgress: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None]]

_START_S = 30.0  # to start, to initialize and to list the tools
_CLOSE_S = 10.0  # to stop, before the connection is aborted
_MAX_PAGES = 50
_MAX_LOGGED = 2000  # characters of a log message of a server


class _LatestProgress:
    """Passes on progress, one report at a time: of those during the call, the latest."""

    def __init__(self, on_progress: OnProgress) -> None:
        self._on_progress = on_progress
        self._latest: tuple[float, float | None, str | None] | None = None
        self._is_busy = False
        self._stopped = False

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self._latest = progress, total, message
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._latest is not None and not self._stopped:
                latest, self._latest = self._latest, None
                await self._on_progress(*latest)
        finally:
            self._is_busy = False

    def stop(self) -> None:
        """Drop what has not been passed on: the call has ended."""
        self._stopped = True


class _Settings(Struct, frozen=True):
    """What the connections of a session have in common."""

    cwd: str  # of servers that are started
    info: Implementation  # the agent
    consumer: McpConsumer  # reaches the servers of the client


class McpConnection:
    """One connected server, and its tools as it last listed them."""

    def __init__(self, server: McpServer, settings: _Settings) -> None:
        self.server = server
        """The server as the client declared it."""
        self.tools: tuple[Tool, ...] = ()
        """The tools; updated when the server reports a change."""
        self.is_lost: bool = False
        """Whether the connection has ended; `connect_mcp` then makes another one."""
        self._settings = settings
        self._client: Client | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"mcp {server.name}")

    def __repr__(self) -> str:
        state = "lost" if self.is_lost else "connected" if self._client else "starting"
        return f"<McpConnection {one_line(self.name, 60)!r}, {state}>"

    @property
    def name(self) -> str:
        """The name of the server."""
        return self.server.name

    @property
    def client(self) -> Client:
        """The client of the library `mcp`, for resources, prompts and all else.

        Raises `McpServerError` if the server is not connected.
        """
        if self._client is None:
            raise McpServerError("it is not connected")
        return self._client

    async def call(
        self, tool: str, arguments: dict[str, Any], on_progress: OnProgress | None = None
    ) -> CallToolResult:
        """Call a tool and return its result; a cancel is forwarded.

        Raises `McpServerError` if the server fails, and for a server of the client
        `RequestError` if the request does not reach it: `McpServerUnavailable`,
        `McpLimitExceeded` or `McpBackendFailed`. While `on_progress` runs, later reports replace
        earlier ones.
        """
        client = self.client
        progress = None if on_progress is None else _LatestProgress(on_progress)
        try:
            return await client.call_tool(tool, arguments, progress_callback=progress)
        except MCPError as exc:
            self.is_lost = self._task.done() or exc.code == CONNECTION_CLOSED
            if (error := binding_error(exc)) is not None:
                raise error from exc
            raise McpServerError(exc.message, code=exc.code) from exc
        except (RuntimeError, ValueError, OSError) as exc:
            log.warning("! the MCP server %s: %s", self.name, exc)
            raise McpServerError("its response is not valid") from exc
        finally:
            if progress is not None:
                progress.stop()

    async def ready(self) -> None:
        """Wait until its tools are known; raise `McpServerError`."""
        try:
            async with asyncio.timeout(_START_S):
                await asyncio.shield(self._ready)
        except TimeoutError:
            raise McpServerError(f"it did not respond within {_START_S:.0f} s") from None

    def stop(self) -> asyncio.Task[None]:
        """Stop it; return the task to wait for."""
        self._stop.set()
        if not self._ready.done():
            self._task.cancel()
        return self._task

    async def _run(self) -> None:
        """Own the connection from opening to closing: both must run in one task."""
        try:
            async with await self._open() as client:
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

    async def _open(self) -> Client:
        """Return the client, not yet entered."""
        server, settings = self.server, self._settings
        usual: dict[str, Any] = {
            "client_info": settings.info,
            "message_handler": self._on_message,
            "logging_callback": self._on_log,
            "log_level": _log_level(),
            "cache": None,
        }
        if not isinstance(server, McpServerAcp):
            return Client(_transport(server, settings.cwd), **usual)
        consumer = settings.consumer
        return Client(
            acp_transport(consumer, server.server_id),
            mode=MCP_VERSION,
            prior_discover=await discover(consumer, server.server_id, settings.info),
            **usual,
        )

    def _fail(self, why: str) -> None:
        self._ready.set_exception(McpServerError(why))
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

    async def _on_log(self, params: LoggingMessageNotificationParams) -> None:
        text = one_line(str(params.data), _MAX_LOGGED)
        log.log(_LEVELS[params.level], "the MCP server %s: %s", self.name, text)


# The level of a server's message, in the terms of `logging`.
_LEVELS: dict[LoggingLevel, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "alert": logging.CRITICAL,
    "emergency": logging.CRITICAL,
}


def _log_level() -> LoggingLevel:
    """Return the level that servers are asked to log from: that of our own logger."""
    return next(name for name, level in _LEVELS.items() if log.isEnabledFor(level))


def _drop_traceback(record: logging.LogRecord) -> bool:
    """Log one line, without a traceback, for each invalid line that a server prints."""
    record.exc_info = record.exc_text = None
    return True


def _transport(
    server: McpServerStdio | McpServerHttp | McpServerSse, cwd: str
) -> AbstractAsyncContextManager[Any]:
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
        case RequestError():
            return inner.text
        case ValueError():
            log.info("! a response of an MCP server is not valid: %s", inner)
            return "its response is not valid"
        case _:
            return " ".join(str(inner).split())[:300] or type(inner).__name__


class McpConnections(Mapping[str, McpConnection]):
    """The connected MCP servers of a session, by name; see `Session.connect_mcp`."""

    def __init__(
        self,
        servers: Sequence[McpServer],
        *,
        cwd: str,
        consumer: McpConsumer,
        client_info: tuple[str, str],
    ) -> None:
        name, version = client_info
        settings = _Settings(cwd, Implementation(name=name, version=version), consumer)
        self.failed: dict[str, str] = {}
        """The servers that cannot be used, and why. They are not tried again."""
        self._servers = servers
        self._settings = settings
        self._open: dict[str, McpConnection] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    def __getitem__(self, name: str) -> McpConnection:
        if name in self.failed:
            raise KeyError(f"The MCP server {name} cannot be used: {self.failed[name]}")
        return self._open[name]

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._open))

    def __len__(self) -> int:
        return len(self._open)

    async def connect(self) -> None:
        """Connect to the servers that are not connected and have not failed."""
        if self._closed:
            raise LocalProtocolError("The session is closed")
        for server in self._servers:
            known = self._open.get(server.name)
            if known is not None and known.is_lost:
                self._closing.add(known.stop())
            if (known is None or known.is_lost) and server.name not in self.failed:
                self._open[server.name] = McpConnection(server, self._settings)
        connections = tuple(self._open.values())
        results = await asyncio.gather(
            *(connection.ready() for connection in connections), return_exceptions=True
        )
        for connection, result in zip(connections, results, strict=True):
            if isinstance(result, McpServerError):
                self.failed[connection.name] = str(result)
                if self._open.get(connection.name) is connection:
                    del self._open[connection.name]
                self._closing.add(connection.stop())
            elif isinstance(result, BaseException):
                raise result

    async def aclose(self) -> None:
        """Disconnect from all servers; those that were started stop."""
        self._closed = True
        self._closing |= {connection.stop() for connection in self._open.values()}
        self._open.clear()
        if not self._closing:
            return
        _, late = await asyncio.wait(self._closing, timeout=_CLOSE_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        self._closing.clear()


# The library logs a traceback for each line of a server's stdout that is not a message.
logging.getLogger("mcp.client.stdio").addFilter(_drop_traceback)
