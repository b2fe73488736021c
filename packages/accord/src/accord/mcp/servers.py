"""Makes MCP servers from what a program gives as `tools`, and serves requests with them."""

from __future__ import annotations

import asyncio
import inspect
import logging
import typing
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager
from inspect import isroutine
from types import SimpleNamespace
from typing import Any, cast

import anyio
from mcp import Client, MCPError
from mcp.server import MCPServer, Server, ServerRequestContext
from mcp.server.connection import Connection
from mcp.server.runner import serve_one
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.transport_context import TransportContext
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ErrorData,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
)
from msgspec import Struct
from pydantic import TypeAdapter, ValidationError

from accord.mcp.consumer import CLIENT_CAPABILITIES, CLIENT_INFO, MCP_VERSION
from accord.mcp.provider import McpCall, marked_tools, wait_stopped
from accord.text.excerpt import excerpt
from accord.version import __version__
from accord.wire.base import UNSET
from accord.wire.shared import McpError, MessageMcpError, MessageMcpResponse, MessageMcpResult

# Makes a server of this process from one that is reached by a client of the library `mcp`.


def forwarding_server(name: str, client: Client) -> Server[Any]:
    """Return a server that passes requests for tools, resources and prompts to another one.

    The client connects once, in the lifespan of the server, by whatever handshake the other server
    needs. So servers of older revisions, and those with a state per connection, can be provided
    over ACP (A-120). What they request of their client fails: its answers could not be forwarded.
    """
    forwarder = _Forwarder(client)
    return Server(
        name,
        lifespan=forwarder.lifespan,
        on_list_tools=forwarder.list_tools,
        on_call_tool=forwarder.call_tool,
        on_list_resources=forwarder.list_resources,
        on_list_resource_templates=forwarder.list_resource_templates,
        on_read_resource=forwarder.read_resource,
        on_list_prompts=forwarder.list_prompts,
        on_get_prompt=forwarder.get_prompt,
    )


class _Forwarder:
    def __init__(self, client: Client) -> None:
        self._client = client

    @asynccontextmanager
    async def lifespan(self, _server: Server[Any]) -> AsyncGenerator[None, None]:
        async with self._client:
            yield

    async def list_tools(
        self, _context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        if self._client.server_capabilities.tools is None:
            return ListToolsResult(tools=[])
        return await self._client.list_tools(cursor=_cursor(params))

    async def call_tool(
        self, context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        return await self._client.call_tool(
            params.name, params.arguments, progress_callback=context.session.report_progress
        )

    async def list_resources(
        self, _context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        if self._client.server_capabilities.resources is None:
            return ListResourcesResult(resources=[])
        return await self._client.list_resources(cursor=_cursor(params))

    async def list_resource_templates(
        self, _context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        if self._client.server_capabilities.resources is None:
            return ListResourceTemplatesResult(resource_templates=[])
        return await self._client.list_resource_templates(cursor=_cursor(params))

    async def read_resource(
        self, _context: ServerRequestContext[Any], params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        return await self._client.read_resource(str(params.uri))

    async def list_prompts(
        self, _context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        if self._client.server_capabilities.prompts is None:
            return ListPromptsResult(prompts=[])
        return await self._client.list_prompts(cursor=_cursor(params))

    async def get_prompt(
        self, _context: ServerRequestContext[Any], params: GetPromptRequestParams
    ) -> GetPromptResult:
        return await self._client.get_prompt(params.name, params.arguments)


def _cursor(params: PaginatedRequestParams | None) -> str | None:
    return None if params is None else params.cursor


class NamedServer(Struct, frozen=True):
    """A server, and its name in the session."""

    name: str
    server: Server[Any]


def servers_from(tools: Iterable[object], taken: Iterable[str] = ()) -> list[NamedServer]:
    """Return the servers for `tools`, with names that are unique and not `taken` (R-MCP-15).

    All functions, and the marked methods of objects, are tools of one server. A `mcp.Client`
    that is not connected yet represents the server that it connects to. Raises `TypeError` for
    anything else that is not a server of the library `mcp`, and for a function whose annotations
    have no JSON schema, and `ValueError` for two functions of one name.
    """
    functions: list[Callable[..., Any]] = []
    others: list[tuple[str, Server[Any] | Client]] = []
    for given in tools:
        if isinstance(given, MCPServer):
            others.append((given.name, _inner(cast("MCPServer[Any]", given))))
        elif isinstance(given, Server):
            others.append((given.name, given))  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(given, Client):
            others.append((getattr(given.server, "name", "server"), given))
        elif isroutine(given):
            functions.append(given)
        elif methods := marked_tools(given):
            functions += methods
        else:
            raise TypeError(
                "tools=[…]: expected a function, an object with methods marked by accord.tool, or "
                f"a server of the library mcp, got {excerpt(repr(given))}"
            )
    names = set(taken)
    found: list[NamedServer] = []
    if functions:
        name = _unique("tools", names)
        found.append(NamedServer(name, _server_of(name, functions)))
    for wanted, other in others:
        name = _unique(wanted, names)
        server = forwarding_server(name, other) if isinstance(other, Client) else other
        found.append(NamedServer(name, server))
    return found


def _server_of(name: str, functions: Iterable[Callable[..., Any]]) -> Server[Any]:
    with _unchanged_logging():
        server = MCPServer(name, version=__version__)
    names: set[str] = set()
    for function in functions:
        if function.__name__ in names:
            raise ValueError(f"tools=[…]: two functions have the name {function.__name__!r}")
        names.add(function.__name__)
        try:
            server.add_tool(function)
        except Exception as exc:
            raise TypeError(_unusable(function, exc)) from exc
    return _inner(server)


def _unusable(function: Callable[..., Any], error: Exception) -> str:
    """Say which annotation of a function cannot be described to the agent."""
    known: dict[str, Any] = getattr(inspect.unwrap(function), "__globals__", {})
    for name, annotation in inspect.get_annotations(function).items():
        alone: Any = SimpleNamespace(__annotations__={name: annotation})
        try:
            TypeAdapter(
                typing.get_type_hints(alone, globalns=known, include_extras=True)[name]
            ).json_schema()
        except Exception as exc:  # noqa: BLE001  # reported
            place = "the return type" if name == "return" else f"the parameter {name!r}"
            reason = str(exc).partition("\n")[0]
            return (
                f"the tool {function.__name__!r}: {place} is annotated with"
                f" {excerpt(repr(annotation), 80)}: expected a type with a JSON schema ({reason})"
            )
    return f"the tool {function.__name__!r}: {error}"


def _inner(server: MCPServer[Any]) -> Server[Any]:
    # The library has no public name for it yet.
    return server._lowlevel_server  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001


@contextmanager
def _unchanged_logging() -> Generator[None, None, None]:
    """Keep the handlers of the program: a server of the library adds its own."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def _unique(wanted: str, names: set[str]) -> str:
    name, number = wanted, 2
    while name in names:
        name, number = f"{wanted}-{number}", number + 1
    names.add(name)
    return name


# The lifespan of an MCP server, which several requests share.


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


# Serves requests of a provider with a server of the library `mcp`.

_TRANSPORT = TransportContext(kind="acp", can_send_request=False)


class ServerBackend:
    """A server of the library `mcp`; each request is served on its own, as revision 2026-07-28."""

    def __init__(self, server: Server[Any]) -> None:
        self._server = server
        self._lifespan = ServerLifespan(server)

    async def serve(self, call: McpCall) -> MessageMcpResponse:
        """Return the outcome of a request."""
        lifespan_state = await self._lifespan.state()
        meta = call.meta
        connection = Connection.from_envelope(
            MCP_VERSION, meta.get(CLIENT_INFO), meta[CLIENT_CAPABILITIES]
        )
        try:
            result = await serve_one(
                self._server,
                _RequestContext(call),
                call.method,
                call.params,
                connection=connection,
                lifespan_state=lifespan_state,
            )
        except MCPError as error:
            return MessageMcpError(error=_error(error.error))
        except ValidationError:  # of the params
            message = "Invalid request parameters"
            return MessageMcpError(error=McpError(code=INVALID_PARAMS, message=message))
        return MessageMcpResult(result=result)

    async def aclose(self) -> None:
        """Leave the lifespan of the server."""
        await self._lifespan.aclose()


class _RequestContext:
    """What the library needs of the transport of one request.

    Notifications belong to the request, and servers cannot send requests (R-MOA-09, R-MOA-13).
    """

    transport: TransportContext = _TRANSPORT
    can_send_request: bool = False
    message_metadata: None = None

    def __init__(self, call: McpCall) -> None:
        self.request_id: str = call.request_id
        self.cancel_requested: anyio.Event = anyio.Event()
        self._call = call

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        await self._call.notify(method, params)

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        token = self._call.meta.get("progressToken")
        if not isinstance(token, str | int) or isinstance(token, bool):
            return  # the caller does not want progress
        params: dict[str, Any] = {"progressToken": token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        await self.notify("notifications/progress", params)


def _error(error: ErrorData) -> McpError:
    data = UNSET if error.data is None else error.data
    return McpError(code=error.code, message=error.message, data=data)
