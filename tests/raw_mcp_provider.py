"""A client written by hand that provides an MCP server, and an agent that uses it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from accord import Agent, Turn, serve
from accord.transports.base import Transport
from accord.transports.memory import pair
from raw_peer import RawPeer, cancel, notification, request, success

__all__ = ("BOTH", "LOOKUP", "SERVER", "RawProvider", "UsesMcp", "raw_provider", "raw_provider_on")

BOTH = pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])
SERVER = {"type": "acp", "name": "tools", "serverId": "S"}
LOOKUP = {
    "name": "lookup",
    "description": "What the team means by a term.",
    "inputSchema": {"type": "object", "properties": {"term": {"type": "string"}}},
}
_DISCOVERED = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "ttlMs": 0,
    "cacheScope": "public",
}


class UsesMcp(Agent):
    """Runs a given function in each turn; it may use servers of the client."""

    mcp_transports = frozenset({"stdio", "http", "acp"})

    def __init__(self, work: Callable[[Turn], Awaitable[Any]]) -> None:
        self.work = work

    async def prompt(self, turn: Turn) -> None:
        await self.work(turn)


class RawProvider(RawPeer):
    """The client: what it sends and receives is JSON.

    `server/discover` and `tools/list` are served unless the test takes all requests.
    """

    def __init__(self, transport: Any, version: int) -> None:
        super().__init__(transport)
        self.version = version
        self.capabilities: Any = None
        self.session_id = ""
        self.takes_all = False
        self.asked: asyncio.Queue[Any] = asyncio.Queue()  # `mcp/message` requests for the test
        self.methods: list[str] = []  # of all of them
        self.cancelled: asyncio.Queue[Any] = asyncio.Queue()  # ids in `$/cancel_request`
        self.ended_turns: asyncio.Queue[Any] = asyncio.Queue()  # their idle states (version 2)
        self.discovered = _DISCOVERED
        self._answers: dict[Any, asyncio.Future[Any]] = {}
        self._count = 0
        self._updated = asyncio.Event()
        self.updates: list[Any] = []  # of all sessions, without idle states

    def frames_received(self, frames: Any) -> None:
        super().frames_received(frames)
        while not self.inbox.empty():
            self._take(self.inbox.get_nowait())

    def _take(self, message: Any) -> None:
        match message:
            case {"method": "mcp/message", "id": request_id, "params": params}:
                self.methods.append(params["method"])
                if self.takes_all or params["method"] == "tools/call":
                    self.asked.put_nowait(message)
                elif params["method"] == "server/discover":
                    self.respond(request_id, _DISCOVERED)
                elif params["method"] == "tools/list":
                    self.respond(request_id, self.listed(LOOKUP))
            case {"method": "$/cancel_request", "params": {"requestId": request_id}}:
                self.cancelled.put_nowait(request_id)
            case {"method": "session/request_permission", "id": request_id, "params": params}:
                option = next(o for o in params["options"] if o["kind"] == "allow_once")
                chosen = {"outcome": "selected", "optionId": option["optionId"]}
                self.send(success(request_id, {"outcome": chosen}))
            case {"params": {"update": {"sessionUpdate": "state_update", "state": "idle"} as idle}}:
                self.ended_turns.put_nowait(idle)
            case {"method": "session/update", "params": {"update": update}}:
                self.updates.append(update)
                self._updated.set()
            case {"id": request_id} if "method" not in message:
                self._answers.pop(request_id).set_result(message)
            case _:
                pass

    async def call(self, method: str, params: Any) -> Any:
        """Send a request and return its response."""
        return await self.start(method, params)

    def start(self, method: str, params: Any) -> asyncio.Future[Any]:
        self._count += 1
        answer = self._answers[self._count] = asyncio.get_running_loop().create_future()
        self.send(request(self._count, method, params))
        return answer

    async def initialize(self) -> None:
        caps = "clientCapabilities" if self.version == 1 else "capabilities"
        params: Any = {"protocolVersion": self.version, caps: {}}
        if self.version == 2:
            params["info"] = {"name": "raw", "version": "1"}
        result = (await self.call("initialize", params))["result"]
        self.capabilities = result["agentCapabilities" if self.version == 1 else "capabilities"]

    async def open(self, *servers: Any, cwd: str = "/") -> Any:
        """Open a session; return the response."""
        params = {"cwd": cwd, "mcpServers": list(servers)}
        answer = await self.call("session/new", params)
        self.session_id = answer.get("result", {}).get("sessionId", "")
        return answer

    def prompt(self, text: str = "go") -> asyncio.Future[Any]:
        content = [{"type": "text", "text": text}]
        return self.start("session/prompt", {"sessionId": self.session_id, "prompt": content})

    def respond(self, request_id: Any, result: Any) -> None:
        """Answer with the result of the MCP server."""
        self.send(success(request_id, {"result": result}))

    def respond_text(self, request_id: Any, text: str) -> None:
        content = [{"type": "text", "text": text}]
        self.respond(request_id, {"content": content, "resultType": "complete"})

    def fail(self, request_id: Any, code: int, message: str = "no", data: Any = None) -> None:
        """Answer with an error of the connection."""
        error = {"code": code, "message": message} | ({} if data is None else {"data": data})
        self.send({"jsonrpc": "2.0", "id": request_id, "error": error})

    def listed(self, *tools: Any) -> Any:
        """Return the result of `tools/list`."""
        usual = {"ttlMs": 0, "cacheScope": "public", "resultType": "complete"}
        return usual | {"tools": list(tools)}

    def notification_of(self, asked: Any, method: str, params: Any) -> Any:
        """Return a notification that belongs to a request."""
        ids = {key: asked["params"][key] for key in ("serverId", "requestId")}
        return notification("mcp/message", ids | {"method": method, "params": params})

    async def shown(self, text: str) -> None:
        """Wait until an update contains a text."""
        while not any(text in str(update) for update in self.updates):
            self._updated.clear()
            await self._updated.wait()

    def cancel(self, request_id: Any) -> None:
        self.send(cancel(request_id))


@asynccontextmanager
async def raw_provider(
    version: int, work: Callable[[Turn], Awaitable[Any]], *, agent: Agent | None = None
) -> AsyncGenerator[RawProvider]:
    """Run an agent with a raw client that is initialized."""
    here, there = pair()
    served = asyncio.create_task(serve(agent or UsesMcp(work), here))
    try:
        async with raw_provider_on(there, version) as provider:
            yield provider
    finally:
        await served


@asynccontextmanager
async def raw_provider_on(transport: Transport, version: int) -> AsyncGenerator[RawProvider]:
    """Run a raw client on a transport to an agent; it is initialized."""
    provider = RawProvider(transport, version)
    await transport.start(provider)
    try:
        async with asyncio.timeout(30):
            await provider.initialize()
            yield provider
    finally:
        await transport.aclose()
