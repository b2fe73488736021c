"""MCP servers of the peer as a transport of the library `mcp`."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectSendStream
from mcp import MCPError
from mcp.shared.message import SessionMessage
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp.types import (
    CLIENT_INFO_META_KEY,
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    DiscoverResult,
    ErrorData,
    Implementation,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from pydantic import ValidationError

from accord.errors import AccordError, McpBackendFailed, RequestError, TransportError
from accord.mcp.consumer import McpConsumer
from accord.mcp.revision import MCP_VERSION
from accord.text.lenient_json import is_object
from accord.wire.base import UNSET
from accord.wire.shared import MessageMcpResult

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
