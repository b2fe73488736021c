"""What the tests of security share: servers, raw clients, and an agent that records."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as ws_connect

import accord
from accord import Agent, Session, Turn
from remote.servers import listener

TOKEN = "a token of a test, long enough"
LOGIN = f"Authorization: Bearer {TOKEN}\r\n"


class Recording(Agent):
    """Accepts all MCP servers and says their names; `prompts` has the texts that it received."""

    mcp_transports = frozenset({"stdio", "http", "sse"})

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.servers: list[str] = []

    async def open_session(self, session: Session) -> None:
        self.servers += [server.name for server in session.mcp_servers]

    async def prompt(self, turn: Turn) -> None:
        self.prompts.append(turn.text)
        await turn.say(f"{turn.text}!")


@asynccontextmanager
async def serving(agent: Any, **options: Any) -> AsyncGenerator[str, None]:
    """Serve an agent; give `HOST:PORT`."""
    async with listener(accord.asgi(agent, **{"token": TOKEN, **options})) as address:
        yield address


class Raw:
    """A WebSocket client that sends what it is told to."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self._last = 0

    async def send(self, message: Any) -> None:
        await self.socket.send(message if isinstance(message, str) else json.dumps(message))

    async def receive(self) -> Any:
        async with asyncio.timeout(20):
            return json.loads(await self.socket.recv())

    async def request(self, method: str, **params: Any) -> Any:
        """Send a request, and return the response; other messages are dropped."""
        self._last += 1
        await self.send({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})
        return await self.response(self._last)

    async def response(self, request_id: Any) -> Any:
        while (message := await self.receive()).get("id") != request_id or "method" in message:
            pass
        return message

    async def initialize(self, version: int = 1) -> Any:
        if version == 1:
            params: Any = {"clientCapabilities": {}}
        else:
            params = {"info": {"name": "raw", "version": "1"}, "capabilities": {}}
        answer = await self.request("initialize", protocolVersion=version, **params)
        assert "result" in answer, answer
        return answer["result"]


@asynccontextmanager
async def raw(address: str, token: str = TOKEN, **options: Any) -> AsyncGenerator[Raw, None]:
    """Connect by WebSocket without Accord's client."""
    given = {"additional_headers": {"Authorization": f"Bearer {token}"}, "compression": None}
    async with ws_connect(f"ws://{address}/acp", **{**given, **options}) as socket:
        yield Raw(socket)


async def http(address: str, request: bytes) -> bytes:
    """Send bytes and return all that comes back until the server closes, within 20 seconds."""
    host, _, port = address.rpartition(":")
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(request)
            return await reader.read()
        finally:
            writer.close()
            await asyncio.wait([asyncio.ensure_future(writer.wait_closed())])


def status_of(answer: bytes) -> int:
    """Return the status of an HTTP/1.1 response."""
    return int(answer.split(b" ", 2)[1])
