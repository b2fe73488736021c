"""An agent behind `RemoteApp` that a test scripts, frame by frame."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from accord.remote.access import Access, ConnectionLimits, HttpLimits, Principal
from accord.remote.asgi import RemoteApp
from accord.transports.base import Frame, Transport
from raw_peer import RawPeer
from remote.http_peer import LIMIT_S, TOKEN, HttpPeer
from remote.servers import hypercorn

# What the reference says for a hypercorn of one's own.
HYPERCORN = {"h2_max_concurrent_streams": 999, "keep_alive_max_requests": 2**31}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": 1, "clientCapabilities": {}},
}


class RawAgent(RawPeer):
    """The agent of one connection; `frames` are the bytes that it has received."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self.frames: list[bytes] = []
        self.error: Exception | None = None
        self.may_write = asyncio.Event()

    def frames_received(self, frames: Sequence[Frame]) -> None:
        self.frames += map(bytes, frames)
        super().frames_received(frames)

    def eof_received(self, error: Exception | None) -> None:
        self.error = error
        super().eof_received(error)

    def writable(self) -> None:
        self.may_write.set()

    def update(self, session: str, text: str = "") -> None:
        """Send a chunk of a message."""
        content = {"type": "text", "text": text}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        self.tell("session/update", {"sessionId": session, "update": update})


class RawServer:
    """A server, its agents in the order of their connections, and a client."""

    def __init__(self, address: str, app: RemoteApp, http: httpx2.AsyncClient) -> None:
        self.address = address
        self.app = app
        self.http = http
        self.agents: asyncio.Queue[RawAgent] = asyncio.Queue()

    def peer(self) -> HttpPeer:
        return HttpPeer(f"http://{self.address}/acp", self.http)

    async def agent(self) -> RawAgent:
        """Return the agent of the next connection, which has received one message."""
        async with asyncio.timeout(LIMIT_S):
            agent = await self.agents.get()
            await agent.get()
            return agent

    async def connect(self) -> tuple[HttpPeer, RawAgent]:
        """Return both ends of a new connection that is initialized."""
        peer = self.peer()
        posting = asyncio.ensure_future(peer.post(INITIALIZE))
        agent = await self.agent()
        agent.answer(0, {"protocolVersion": 1})
        response = await posting
        assert response.status_code == 200
        peer.connection = response.headers["Acp-Connection-Id"]
        return peer, agent


@asynccontextmanager
async def raw_server(
    *,
    http2: bool = False,
    access: Access | None = None,
    connections: ConnectionLimits | None = None,
    **limits: Any,
) -> AsyncGenerator[RawServer]:
    """Serve agents that the test scripts; `limits` are those of `HttpLimits`."""

    async def serve(transport: Transport, principal: Principal) -> None:
        agent = RawAgent(transport)
        server.agents.put_nowait(agent)
        await transport.start(agent)
        await agent.ended.wait()

    app = RemoteApp(
        serve,
        access or Access(token=TOKEN),
        limits=connections,
        http_limits=HttpLimits(**limits),
    )
    client = httpx2.AsyncClient(http1=not http2, http2=http2, timeout=LIMIT_S)
    async with hypercorn(app, **HYPERCORN) as address, client as http:
        server = RawServer(address, app, http)
        try:
            yield server
        finally:
            await app.drain(0)
