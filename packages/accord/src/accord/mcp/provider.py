"""Serves MCP servers over an ACP connection: the provider's side of `mcp/message`.

It does no I/O of its own: a client's role calls it with typed params, a proxy with those that it
has decoded. What serves a request is a `McpBackend`.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from accord.errors import (
    InvalidParams,
    McpBackendFailed,
    McpLimitExceeded,
    McpServerUnavailable,
    RequestCancelled,
)
from accord.mcp.consumer import CLIENT_CAPABILITIES, MCP_VERSION, PROTOCOL_VERSION
from accord.text.lenient_json import is_object
from accord.types.mcp import McpServerAcp
from accord.wire.shared import (
    McpError,
    MessageMcpError,
    MessageMcpNotification,
    MessageMcpRequest,
    MessageMcpResponse,
)

if TYPE_CHECKING:
    pass
# Waits for tools and servers to stop, but not forever: they are code of the program's user.

log: logging.Logger = logging.getLogger("accord.mcp")

CLOSE_S = 5.0  # then the end of the session is not delayed any longer


async def wait_stopped(tasks: Collection[asyncio.Task[Any]], what: str) -> None:
    """Wait for tasks that were asked to stop; log if they do not: a thread cannot be cancelled."""
    if not tasks:
        return
    _, running = await asyncio.wait(tasks, timeout=CLOSE_S)
    if running:
        log.warning("! %s did not stop within %g s", what, CLOSE_S)


# Marks functions and methods as MCP tools.

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_MARK = "__accord_tool__"


def tool(function: FunctionT) -> FunctionT:
    """Mark a method as an MCP tool; its signature and docstring describe the tool.

    The methods of an object in `tools=[…]`, and those of a `Proxy`, are tools if they are marked.
    """
    setattr(function, _MARK, True)
    return function


def is_tool(function: object) -> bool:
    """Return whether a function is marked."""
    return getattr(function, _MARK, False) is True


def marked_tools(owner: object) -> list[Callable[..., Any]]:
    """Return the marked methods of an object, bound to it, in the order of their definition.

    A method that a subclass overrides is a tool if the override is marked.
    """
    names = dict.fromkeys(name for cls in reversed(type(owner).__mro__) for name in vars(cls))
    methods = (getattr(owner, name) for name in names if _is_marked(type(owner), name))
    return list(methods)


def _is_marked(cls: type, name: str) -> bool:
    definition = next(vars(base)[name] for base in cls.__mro__ if name in vars(base))
    function = getattr(definition, "__func__", definition)  # of a static or class method
    marks = (getattr(each, _MARK, False) for each in (definition, function))
    return callable(function) and True in marks


MAX_ACTIVE_REQUESTS = 64  # of one server (R-MOA-14)

_INVALID_PARAMS = -32602
_UNSUPPORTED_VERSION = -32022

# Sends a notification to the side that uses the server.
NotifyConsumer: TypeAlias = Callable[[MessageMcpNotification], Awaitable[None]]


class McpCall(Struct, frozen=True):
    """A request to an MCP server; `notify` sends a notification that belongs to it."""

    request_id: str
    method: str
    params: dict[str, Any]
    notify: Callable[[str, Mapping[str, Any] | None], Awaitable[None]]

    @property
    def meta(self) -> dict[str, Any]:
        """The `_meta` of the params."""
        return self.params["_meta"]


class McpBackend(Protocol):
    """An MCP server of revision 2026-07-28, without a transport."""

    async def serve(self, call: McpCall) -> MessageMcpResponse:
        """Return the outcome of a request: the result, or the server's error.

        An exception means that the server has failed.
        """
        ...

    async def aclose(self) -> None:
        """Stop the server."""
        ...


class McpProvider:
    """The MCP servers that this side provides on one ACP connection."""

    def __init__(self) -> None:
        self._registrations: dict[str, Registration] = {}

    def __contains__(self, server_id: object) -> bool:
        """Return whether a server id is registered; a proxy passes on requests for others."""
        return server_id in self._registrations

    def register(
        self, name: str, backend: McpBackend, *, max_active_requests: int = MAX_ACTIVE_REQUESTS
    ) -> Registration:
        """Register a server, which accepts requests at once; then send its `declaration`.

        The declaration is sent later, because requests may precede the response to it (R-MOA-08).
        """
        server = McpServerAcp(name, secrets.token_hex(16))  # never used again (R-MOA-02)
        registration = Registration(self, server, backend, max_active_requests)
        self._registrations[server.server_id] = registration
        return registration

    async def request(
        self, message: MessageMcpRequest, notify: NotifyConsumer
    ) -> MessageMcpResponse:
        """Serve a request; cancelling the caller cancels it.

        Raises `McpServerUnavailable` for an unknown server id, `InvalidParams` for the id of an
        active request, `McpLimitExceeded`, `McpBackendFailed` if the server did not return an
        outcome, and `RequestCancelled` if the server is removed during the call (R-MOA-12).
        """
        registration = self._registrations.get(message.server_id)
        if registration is None:
            raise McpServerUnavailable(data={"serverId": message.server_id})  # R-MOA-07
        return await registration.serve(message, notify)

    def remove(self, server_id: str) -> None:
        """Remove a server; requests for it fail from now on."""
        self._registrations.pop(server_id, None)

    async def aclose(self) -> None:
        """Remove all servers and stop them."""
        for registration in list(self._registrations.values()):
            await registration.aclose()


class Registration:
    """A registered server."""

    def __init__(
        self,
        provider: McpProvider,
        declaration: McpServerAcp,
        backend: McpBackend,
        max_active_requests: int,
    ) -> None:
        self.declaration: McpServerAcp = declaration
        """The entry for `mcpServers` of the request that opens a session."""
        self._provider = provider
        self._backend = backend
        self._max_active_requests = max_active_requests
        self._active: dict[str, asyncio.Task[MessageMcpResponse]] = {}  # by request id

    async def serve(self, message: MessageMcpRequest, notify: NotifyConsumer) -> MessageMcpResponse:
        """Serve a request for this server; `McpProvider.request` documents the errors."""
        server_id, request_id = message.server_id, message.request_id
        if request_id in self._active:  # R-MOA-10
            raise InvalidParams(
                "A request with this requestId is active",
                data={"serverId": server_id, "requestId": request_id},
            )
        if len(self._active) >= self._max_active_requests:
            raise McpLimitExceeded(data={"serverId": server_id})
        params = message.params or {}
        if (refused := _refusal(params)) is not None:
            return MessageMcpError(error=refused)

        async def send(method: str, content: Mapping[str, Any] | None) -> None:
            if self._active.get(request_id) is not task:
                return  # nothing follows the response (R-MOA-15)
            await notify(
                MessageMcpNotification(
                    server_id=server_id,
                    request_id=request_id,
                    method=method,
                    params=None if content is None else dict(content),
                )
            )

        call = McpCall(request_id, message.method, params, send)
        task = asyncio.create_task(self._outcome(call), name="accord mcp request")
        self._active[request_id] = task
        try:
            return await task
        except asyncio.CancelledError:
            if message.server_id not in self._provider:  # removed, not cancelled by the caller
                raise RequestCancelled from None
            raise
        finally:
            del self._active[request_id]

    async def _outcome(self, call: McpCall) -> MessageMcpResponse:
        try:
            return await self._backend.serve(call)
        except Exception as error:
            # What the peer learns must not contain values of this side.
            name = self.declaration.name
            log.exception("! the MCP server %r failed in %s", name, call.method)
            raise McpBackendFailed(data={"serverId": self.declaration.server_id}) from error

    async def aclose(self) -> None:
        """Remove the server, cancel its requests (R-MOA-11) and stop it."""
        self._provider.remove(self.declaration.server_id)
        active = list(self._active.values())
        for task in active:
            task.cancel()
        await wait_stopped(active, f"a request to the MCP server {self.declaration.name!r}")
        await self._backend.aclose()


def _refusal(params: dict[str, Any]) -> McpError | None:
    """Return the error of a request that does not carry what each request must (R-MOA-13)."""
    meta = params.get("_meta")
    meta = meta if is_object(meta) else {}
    version = meta.get(PROTOCOL_VERSION)
    if not isinstance(version, str):
        return McpError(
            code=_INVALID_PARAMS, message=f"Invalid params: _meta has no {PROTOCOL_VERSION}"
        )
    if version != MCP_VERSION:
        return McpError(
            code=_UNSUPPORTED_VERSION,
            message="Unsupported protocol version",
            data={"supported": [MCP_VERSION], "requested": version},
        )
    if not is_object(meta.get(CLIENT_CAPABILITIES)):
        return McpError(
            code=_INVALID_PARAMS, message=f"Invalid params: _meta has no {CLIENT_CAPABILITIES}"
        )
    return None
