"""Real ASGI servers on a free port of this machine."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from hypercorn.asyncio import serve
from hypercorn.config import Config

from accord.remote.asgi_types import AsgiApp


@asynccontextmanager
async def hypercorn(app: AsgiApp, **settings: Any) -> AsyncGenerator[str, None]:
    """Serve an application; give `HOST:PORT`."""
    listening = socket.create_server(("127.0.0.1", 0))
    host, port = listening.getsockname()
    config = Config()
    config.bind = [f"fd://{listening.detach()}"]
    config.graceful_timeout = 1
    config.errorlog = None
    config.websocket_max_message_size = 64 * 1024 * 1024
    for name, value in settings.items():
        setattr(config, name, value)
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
