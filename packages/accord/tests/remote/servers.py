"""Real ASGI servers on a free port of this machine."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypercorn.asyncio import serve
from hypercorn.config import Config

from accord.remote.access import AsgiApp
from accord.remote.asgi import RemoteApp
from accord.remote.listener import listen
from accord.remote.server import ServerOptions, Stop, run_server


@asynccontextmanager
async def hypercorn(app: AsgiApp, **settings: Any) -> AsyncGenerator[str, None]:
    """Serve an application; give `HOST:PORT`."""
    listening = socket.create_server(("127.0.0.1", 0))
    host, port = listening.getsockname()
    config = _config(settings)
    config.bind = [f"fd://{listening.detach()}"]
    stop = asyncio.Event()
    started = asyncio.Event()

    async def passing(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        await receive()
        await send({"type": "lifespan.startup.complete"})
        started.set()
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    serving = asyncio.ensure_future(serve(passing, config, shutdown_trigger=stop.wait))
    try:
        await started.wait()
        yield f"{host}:{port}"
    finally:
        stop.set()
        await asyncio.wait([serving], timeout=10)


@asynccontextmanager
async def listener(app: AsgiApp, **settings: Any) -> AsyncGenerator[str, None]:
    """Serve an application as `accord serve` does; give `HOST:PORT`."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    host, port = listening.getsockname()
    stop, started = asyncio.Event(), asyncio.Event()
    config = _config(settings)
    serving = asyncio.ensure_future(
        listen(app, config, [listening], started=started.set, stop=stop)
    )
    try:
        await started.wait()
        yield f"{host}:{port}"
    finally:
        stop.set()
        await asyncio.wait([serving], timeout=10)
        serving.result()


def _config(settings: dict[str, Any]) -> Config:
    config = Config()
    config.graceful_timeout = 1
    config.errorlog = None
    config.websocket_max_message_size = 64 * 1024 * 1024
    for name, value in settings.items():
        setattr(config, name, value)
    return config


@asynccontextmanager
async def uvicorn(app: AsgiApp, **options: Any) -> AsyncGenerator[str, None]:
    """Serve an application by uvicorn; give `HOST:PORT`."""
    module = pytest.importorskip("uvicorn")
    started = asyncio.Event()

    class Server(module.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            started.set()

    server = Server(module.Config(app, log_config=None, **options))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = asyncio.ensure_future(server._serve([listening]))
        try:
            async with asyncio.timeout(20):
                await started.wait()
            host, port = listening.getsockname()
            yield f"{host}:{port}"
        finally:
            server.should_exit = True
            await asyncio.wait([serving], timeout=10)


@asynccontextmanager
async def served(app: RemoteApp, **options: Any) -> AsyncGenerator[str, None]:
    """Serve an application as `accord serve` does; give `HOST:PORT`."""
    stop = Stop()
    listening: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def listens(sockets: Sequence[socket.socket]) -> None:
        listening.set_result(sockets[0].getsockname()[1])

    given = ServerOptions(**{"drain_s": 0.0, **options})
    serving = asyncio.ensure_future(run_server(app, given, listens, stop))
    try:
        await asyncio.wait([serving, listening], return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        yield f"127.0.0.1:{listening.result()}"
    finally:
        stop.request()
        stop.request()
        async with asyncio.timeout(20):
            await serving
