"""Serves the tools of one session by the transport that its agent supports.

`SessionTools` chooses: MCP over ACP, else `HttpBridge`, a server on the loopback interface, else
`StdioBridge`, whose stdio servers are the program `accord.mcp.shim`, which connects back here.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import secrets
import socket
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import anyio
import uvicorn
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server import Server
from mcp.server.runner import serve_dual_era_loop
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter
from pydantic import ValidationError
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from accord.errors import LocalProtocolError
from accord.mcp.provider import MAX_ACTIVE_REQUESTS, McpProvider, wait_stopped
from accord.mcp.servers import NamedServer, ServerBackend, ServerLifespan, servers_from
from accord.mcp.shim import PORT, TOKEN
from accord.types.mcp import McpServer, McpServerAcp, McpServerHttp, McpServerStdio

# Serves MCP servers over HTTP on the loopback interface, for agents without MCP over ACP.
#
# The library's HTTP transport serves revision 2026-07-28 as well as the older ones, whose clients
# begin with a handshake. What is checked here comes first: who may call which server at all.

_Scope: TypeAlias = MutableMapping[str, Any]
_Event: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[_Event]]
_Send: TypeAlias = Callable[[_Event], Awaitable[None]]

MAX_BODY_BYTES = 1024 * 1024  # of a request
MAX_SESSIONS = 64  # of clients with a handshake, for each server
DISCONNECT_S = 1.0  # for requests to end after the clients have been disconnected

_INVALID_REQUEST = -32600
_METHOD_NOT_FOUND = -32601
_HEADER_MISMATCH = -32020
_LIMIT = -33000

# Headers that must not be sent twice: two readers could see different values.
_ONCE = (b"origin", b"host", b"authorization", b"mcp-protocol-version", b"mcp-method", b"mcp-name")


class _Route:
    """A server, the token that allows to call it, and the requests that it is serving."""

    def __init__(self, name: str, manager: StreamableHTTPSessionManager) -> None:
        self.name = name
        self.manager = manager
        self.token: str = secrets.token_urlsafe(32)
        self.active: int = 0


class HttpBridge:
    """An HTTP server for the MCP servers of one session (R-MOA-17).

    It listens on a free port of 127.0.0.1, and checks `Host`, `Origin` and the token of a server.
    """

    def __init__(self, servers: Sequence[NamedServer]) -> None:
        self._routes: dict[str, _Route] = {}
        for named in servers:
            manager = StreamableHTTPSessionManager(
                named.server,
                max_request_body_size=MAX_BODY_BYTES,
                max_sessions=MAX_SESSIONS,
                session_idle_timeout=None,  # until the session of ACP ends
            )
            self._routes[f"/mcp-{secrets.token_hex(8)}"] = _Route(named.name, manager)
        self._host = ""
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> tuple[McpServerHttp, ...]:
        """Listen, and return what the agent needs to reach the servers."""
        listening: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(listening), name="accord mcp bridge")
        await asyncio.wait([self._task, listening], return_when=asyncio.FIRST_COMPLETED)
        if not listening.done():
            await self._task  # raises why
        self._host = f"127.0.0.1:{listening.result()}"
        return tuple(
            McpServerHttp(
                route.name,
                f"http://{self._host}{path}",
                headers={"Authorization": f"Bearer {route.token}"},
            )
            for path, route in self._routes.items()
        )

    async def aclose(self) -> None:
        """Stop listening, disconnect all clients, and stop the servers."""
        self._stop.set()
        if self._task is not None:
            await wait_stopped([self._task], "the HTTP bridge of a session")
            if self._task.done():
                self._task.result()

    async def _run(self, listening: asyncio.Future[int]) -> None:
        async with AsyncExitStack() as stack:
            for route in self._routes.values():
                await stack.enter_async_context(route.manager.run())
            config = uvicorn.Config(
                self._serve,
                interface="asgi3",
                proxy_headers=False,
                server_header=False,
                log_config=None,
                access_log=False,
                ws="none",
            )
            state = ServerState()
            loop = asyncio.get_running_loop()
            # Not `uvicorn.Server`: it handles signals, and polls.
            server = await loop.create_server(
                lambda: H11Protocol(config, state, {}), sock=_loopback_socket()
            )
            try:
                listening.set_result(server.sockets[0].getsockname()[1])
                await self._stop.wait()
            finally:
                server.close()
                await _disconnect(state)

    async def _serve(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        route = self._routes.get(scope["path"])
        refused = self._refusal(scope["method"], headers, route)
        if refused is not None:
            await _refuse(send, *refused)
            return
        assert route is not None
        if scope["method"] == "GET":  # a stream for messages outside requests
            await route.manager.asgi_app(scope, receive, send)
            return
        if route.active >= MAX_ACTIVE_REQUESTS:
            await _refuse(send, 429, _LIMIT, "Too many active MCP requests")
            return
        route.active += 1
        try:
            await route.manager.asgi_app(scope, receive, send)
        finally:
            route.active -= 1

    def _refusal(
        self, method: str, headers: list[tuple[bytes, bytes]], route: _Route | None
    ) -> tuple[int, int, str] | None:
        """Return status, code and message for a request that must not reach a server."""
        names = [name for name, _ in headers]
        if any(names.count(name) > 1 for name in _ONCE):
            return 400, _HEADER_MISMATCH, "A header that may occur once occurs twice"
        values = {name: value.decode("latin-1") for name, value in headers}
        if values.get(b"host") != self._host:
            return 403, _INVALID_REQUEST, "Invalid Host"
        if values.get(b"origin", f"http://{self._host}") != f"http://{self._host}":
            return 403, _INVALID_REQUEST, "Invalid Origin"
        if route is None:
            return 404, _METHOD_NOT_FOUND, "Unknown path"
        expected = f"Bearer {route.token}"
        given = values.get(b"authorization", "")
        if not hmac.compare_digest(given.encode("latin-1"), expected.encode()):
            return 401, _INVALID_REQUEST, "Invalid token"
        if method not in ("POST", "GET", "DELETE"):
            return 405, _INVALID_REQUEST, "Expected POST"
        media_type = values.get(b"content-type", "").partition(";")[0].strip().lower()
        if method == "POST" and media_type != "application/json":
            return 415, _INVALID_REQUEST, "Expected application/json"
        return None


def _loopback_socket() -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    return listener


async def _disconnect(state: ServerState) -> None:
    """Disconnect all clients, which ends their requests."""
    for connection in list(state.connections):
        connection.transport.close()
    if state.tasks:
        _, running = await asyncio.wait(state.tasks, timeout=DISCONNECT_S)
        for task in running:
            task.cancel()
        await wait_stopped(running, "a request of the HTTP bridge")


async def _refuse(send: _Send, status: int, code: int, message: str) -> None:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    body = json.dumps(error).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status == 405:
        headers.append((b"allow", b"POST"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


# Serves MCP servers to agents that start stdio servers only, which is every agent.
#
# The agent starts `accord.mcp.shim`, which connects back to this program.

log: logging.Logger = logging.getLogger("accord.mcp")

MAX_LINE_BYTES = 16 * 1024 * 1024  # of a message
TOKEN_S = 10.0  # for the first line

_SHIM = str(Path(__file__).with_name("shim.py"))


class _Target:
    """A server, and the token that allows to connect to it."""

    def __init__(self, named: NamedServer) -> None:
        self.name: str = named.name
        self.server: Server[Any] = named.server
        self.lifespan = ServerLifespan(named.server)
        self.token: str = secrets.token_urlsafe(32)


class StdioBridge:
    """A listener for the shims of one session, which connect to its MCP servers."""

    def __init__(self, servers: Sequence[NamedServer]) -> None:
        self._targets = [_Target(named) for named in servers]
        self._listener: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> tuple[McpServerStdio, ...]:
        """Listen on a free port of 127.0.0.1; return the commands that connect to the servers."""
        self._listener = await asyncio.start_server(
            self._accept, "127.0.0.1", 0, limit=MAX_LINE_BYTES
        )
        port = str(self._listener.sockets[0].getsockname()[1])
        return tuple(
            McpServerStdio(
                target.name,
                sys.executable,
                ("-I", "-S", _SHIM),  # independent of the agent's environment and directory
                {PORT: port, TOKEN: target.token},
            )
            for target in self._targets
        )

    async def aclose(self) -> None:
        """Disconnect all shims, which ends them, and stop the servers."""
        if self._listener is not None:
            self._listener.close()
        for task in self._connections:
            task.cancel()
        await wait_stopped(list(self._connections), "the connection of an MCP shim")
        for target in self._targets:
            await target.lifespan.aclose()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # closed: the stream's callback would log it
        except (OSError, ValueError) as error:
            log.warning("! the connection of an MCP shim failed: %s", error)
        except Exception:
            log.exception("! the connection of an MCP shim failed")
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(TOKEN_S):
            token = (await reader.readline()).strip()
        target = next((t for t in self._targets if _is_token(token, t)), None)
        if target is None:
            log.warning("! a connection with a wrong token was refused")
            return
        lifespan_state = await target.lifespan.state()
        received, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write_stream, sent = anyio.create_memory_object_stream[SessionMessage](0)
        async with asyncio.TaskGroup() as group:
            group.create_task(_receive(reader, received))
            group.create_task(_send(sent, writer))
            await serve_dual_era_loop(
                target.server, read_stream, write_stream, lifespan_state=lifespan_state
            )


def _is_token(given: bytes, target: _Target) -> bool:
    return hmac.compare_digest(given, target.token.encode())


async def _receive(
    reader: asyncio.StreamReader, received: MemoryObjectSendStream[SessionMessage | Exception]
) -> None:
    async with received:
        with suppress(anyio.BrokenResourceError, OSError):  # the server or the shim has ended
            while line := await reader.readline():
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValidationError as error:
                    await received.send(error)
                else:
                    await received.send(SessionMessage(message))


async def _send(
    sent: MemoryObjectReceiveStream[SessionMessage], writer: asyncio.StreamWriter
) -> None:
    async with sent:
        with suppress(OSError):  # the shim has ended
            async for message in sent:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(text.encode() + b"\n")
                await writer.drain()


class _Bridge(Protocol):
    """What serves servers to one session."""

    async def start(self) -> Sequence[McpServer]: ...
    async def aclose(self) -> None: ...


class SessionTools:
    """The tools of one session."""

    def __init__(self, bridge: _Bridge, declarations: Sequence[McpServer]) -> None:
        self.declarations: Sequence[McpServer] = declarations
        """The entries for `mcpServers` of the request that opens the session."""
        self._bridge = bridge

    @classmethod
    async def open(
        cls,
        tools: Iterable[object],
        provider: McpProvider,
        transports: Collection[str],
        taken: Iterable[str],
    ) -> SessionTools:
        """Serve tools: over ACP if the agent supports it, else over HTTP, else over stdio.

        `transports` are those that the agent supports, `taken` the names of other MCP servers.
        """
        servers = servers_from(tools, taken)
        bridge: _Bridge
        if "acp" in transports:
            bridge = _Registrations(provider, servers)
        elif "http" in transports:
            bridge = HttpBridge(servers)
        elif "stdio" in transports:
            bridge = StdioBridge(servers)
        else:
            raise LocalProtocolError(
                "tools=[…]: the agent supports none of the transports acp, http and stdio of MCP"
            )
        try:
            return cls(bridge, await bridge.start())
        except BaseException:
            await bridge.aclose()
            raise

    async def aclose(self) -> None:
        """Stop serving the tools."""
        await self._bridge.aclose()


class _Registrations:
    """The servers of a session, registered with the provider of its connection."""

    def __init__(self, provider: McpProvider, servers: Sequence[NamedServer]) -> None:
        self._registrations = [
            provider.register(named.name, ServerBackend(named.server)) for named in servers
        ]

    async def start(self) -> Sequence[McpServerAcp]:
        return [registration.declaration for registration in self._registrations]

    async def aclose(self) -> None:
        for registration in self._registrations:
            await registration.aclose()
