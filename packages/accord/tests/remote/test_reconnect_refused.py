"""A client that connects again to a server that does not accept its token any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import accord
from accord import Agent, ConnectionLost, ConnectionRefused, Principal, Turn
from accord.transports.reconnecting import ReconnectingTransport
from accord.transports.registry import ConnectionChange, Reconnect, RemoteOptions, transport_for_url
from remote.servers import hypercorn
from remote.tcp_proxy import TcpProxy, tcp_proxy
from requirement import requirement
from versions import only

pytestmark = pytest.mark.usefixtures("closing_is_quick")

TOKEN = "a token of a test, long enough"
STATUSES = pytest.mark.parametrize("status", [401, 403])
SCHEMES = pytest.mark.parametrize("scheme", ["ws", "http"])


class Server:
    """An agent whose server can withdraw the token, or refuse the client in another way."""

    def __init__(self) -> None:
        self.refuses = 0  # with this status
        agent = Silent()
        self._app = accord.asgi(agent, token=None, authenticate=self._authenticate)

    def _authenticate(self, request: accord.RemoteRequest) -> Principal | None:
        assert request.headers["authorization"] == [f"Bearer {TOKEN}"]
        return None if self.refuses == 401 else Principal("ada")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self.refuses != 403 or scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close"})  # before it was accepted: status 403
            return
        await send({"type": "http.response.start", "status": 403, "headers": []})
        await send({"type": "http.response.body", "body": b""})


class Silent(Agent):
    async def prompt(self, turn: Turn) -> None: ...


@asynccontextmanager
async def served(scheme: str) -> AsyncGenerator[tuple[Server, TcpProxy, str]]:
    server = Server()
    async with hypercorn(server) as address, tcp_proxy(address) as (proxy, url):
        yield server, proxy, f"{scheme}://{url}"


class Changes(list[ConnectionChange]):
    """Records the changes of a connection; there would be many attempts."""

    def __init__(self) -> None:
        super().__init__()
        self.lost = asyncio.Event()
        self.settings = Reconnect(
            attempts=1000, wait_s=0.001, max_wait_s=0.001, on_change=self._note
        )

    def _note(self, change: ConnectionChange) -> None:
        self.append(change)
        if change.state == "lost":
            self.lost.set()

    async def check(self, status: int) -> None:
        """Wait until the connection is given up: after one attempt, because of this status."""
        await self.lost.wait()
        assert [change.state for change in self] == ["reconnecting", "lost"]
        error = self[-1].error
        assert isinstance(error, ConnectionLost)
        assert f"refused the connection with status {status}" in str(error)


@SCHEMES
@STATUSES
@requirement("R-WS-17")
async def test_client_gives_up_when_its_token_is_refused(scheme: str, status: int) -> None:
    changes = Changes()
    async with (
        asyncio.timeout(30),
        served(scheme) as (server, proxy, url),
        accord.connect(url, token=TOKEN, reconnect=changes.settings) as client,
    ):
        session = await client.new_session("/")
        server.refuses = status
        proxy.cut()
        await changes.check(status)
        with pytest.raises(ConnectionLost, match=f"status {status}"):
            await client.new_session("/")
        with pytest.raises(ConnectionLost, match=f"status {status}"):
            async with session.prompt("hello") as turn:
                await turn.wait()


@SCHEMES
@STATUSES
@requirement("R-WS-17")
async def test_bridge_gives_up_when_its_token_is_refused(scheme: str, status: int) -> None:
    changes = Changes()
    async with asyncio.timeout(30), served(scheme) as (server, proxy, url):
        options = RemoteOptions(token=TOKEN, ends_when_cut=True)
        bridge = ReconnectingTransport(transport_for_url(url, options), changes.settings)
        async with accord.connect(bridge, versions=only(1)) as client:
            await client.new_session("/")
            server.refuses = status
            proxy.cut()
            await changes.check(status)
            with pytest.raises(ConnectionLost, match=f"status {status}"):
                await client.new_session("/")


@SCHEMES
@STATUSES
async def test_first_connection_names_the_status(scheme: str, status: int) -> None:
    async with served(scheme) as (server, _, url):
        server.refuses = status
        with pytest.raises(ConnectionRefused) as caught:
            async with accord.connect(url, token=TOKEN):
                pass
        assert caught.value.status == status
        assert str(status) in str(caught.value)
