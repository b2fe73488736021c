"""`accord.asgi` mounted in an application of Starlette or FastAPI, on real servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

import accord
from accord import Agent, Turn
from accord.errors import TransportError
from accord.remote.access import AsgiApp, path_of
from remote.servers import hypercorn, uvicorn
from remote.test_websocket import TOKEN

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


class Echo(Agent):
    async def prompt(self, turn: Turn) -> None:
        await turn.say(turn.text)


def starlette(agent: Any) -> Any:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    return Starlette(routes=[Mount("/agents", agent)])


def fastapi(agent: Any) -> Any:
    fastapi = pytest.importorskip("fastapi", reason="run tests/docs/install.sh")

    app = fastapi.FastAPI()
    app.mount("/agents", agent)
    return app


def uvicorn_with_websockets(app: AsgiApp, **options: Any) -> AbstractAsyncContextManager[str]:
    return uvicorn(app, **{"ws": "websockets-sansio", "lifespan": "on", **options})


SERVERS = {"hypercorn": hypercorn, "uvicorn": uvicorn_with_websockets}


async def ask(url: str) -> str:
    async with accord.connect(url, token=TOKEN) as client:
        session = await client.new_session("/")
        async with session.prompt("hello") as turn:
            await turn.wait()
        return turn.text


@pytest.mark.parametrize(("framework", "server"), [(starlette, "hypercorn"), (fastapi, "uvicorn")])
async def test_mounted_agent_is_reached_below_the_mount(framework: Any, server: str) -> None:
    app = framework(accord.asgi(Echo, token=TOKEN))
    async with SERVERS[server](app) as address:
        assert await ask(f"ws://{address}/agents/acp") == "hello"
        assert await ask(f"http://{address}/agents/acp") == "hello"
        with pytest.raises(TransportError, match=r"status 40[34]"):
            await ask(f"ws://{address}/agents/agents/acp")
        assert await _get(address, "/agents/health") == 200
        assert await _get(address, "/health") == 404


async def test_root_path_of_the_server_is_respected() -> None:
    """A proxy that removes the first part of the path tells the server by `root_path`."""
    app = accord.asgi(Echo, token=TOKEN)
    async with uvicorn_with_websockets(app, root_path="/behind") as address:
        assert await ask(f"ws://{address}/acp") == "hello"
        assert await _get(address, "/ready") == 200


async def test_application_drains_in_the_lifespan_of_its_owner() -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    agent = accord.asgi(Echo, token=TOKEN)
    drained: list[bool] = []

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await agent.drain(10)
        drained.append(True)

    app = Starlette(routes=[Mount("/agents", agent)], lifespan=lifespan)
    async with (
        uvicorn_with_websockets(app) as address,
        accord.connect(f"http://{address}/agents/acp", token=TOKEN) as client,
    ):
        assert await client.new_session("/")
    assert drained == [True]


PATHS = [
    ("/acp", "", "/acp"),
    ("/agents/acp", "/agents", "/acp"),
    ("/agents/acp", "/agents/", "/acp"),
    ("/acp", "/agents", "/acp"),  # servers that have removed it
    ("/agentsacp", "/agents", "/agentsacp"),
    ("/agents", "/agents", ""),
]


def test_path_within_the_application() -> None:
    for path, root_path, expected in PATHS:
        assert path_of({"path": path, "root_path": root_path}) == expected, (path, root_path)


async def _get(address: str, path: str) -> int:
    host, _, port = address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return int(answer.split()[1])
