"""Runs an ASGI application on a port of this machine, by hypercorn."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

from hypercorn.asyncio import serve as _serve  # pyright: ignore[reportUnknownVariableType]
from hypercorn.config import Config
from msgspec import Struct

from accord.remote.app import RemoteApp
from accord.transports.remote_address import REMOTE_FRAME_BYTES

__all__ = ("ServerOptions", "run_server")


class ServerOptions(Struct, frozen=True, kw_only=True):
    """Where a server listens, and its certificate. Port 0 is a free port."""

    host: str = "127.0.0.1"
    port: int = 0
    tls_cert: Path | None = None
    tls_key: Path | None = None
    drain_s: float = 10.0  # for connections to end after `stop`


async def run_server(
    app: RemoteApp,
    options: ServerOptions,
    listening: Callable[[str, int], None],
    stop: asyncio.Event,
) -> None:
    """Serve an application until `stop` is set, then let its connections end.

    `listening` is called with the address once the server accepts connections. Raises `OSError`
    if the address cannot be used.
    """
    found = socket.getaddrinfo(
        options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family = found[0][0]
    bound = socket.create_server(
        (options.host, options.port), family=family, backlog=100, reuse_port=False
    )
    port: int = bound.getsockname()[1]
    started, drained = asyncio.Event(), asyncio.Event()

    async def with_start(scope: Any, receive: Any, send: Any) -> None:
        async def sending(event: Any) -> None:
            await send(event)
            if event["type"] == "lifespan.startup.complete":
                started.set()

        await app(scope, receive, sending if scope["type"] == "lifespan" else send)

    serve: Callable[..., Coroutine[Any, Any, None]] = cast("Any", _serve)
    config = _config(options, bound.detach())
    serving = asyncio.ensure_future(serve(with_start, config, shutdown_trigger=drained.wait))
    try:
        await _first(started, serving)
        listening(options.host, port)
        await _first(stop, serving)
        await app.drain(options.drain_s)
    finally:
        drained.set()
        await serving


async def _first(event: asyncio.Event, serving: asyncio.Future[None]) -> None:
    """Wait for an event; raise the error of a server that ends before it."""
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((waiting, serving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    if serving.done():
        serving.result()
        raise OSError("The server has stopped")


def _config(options: ServerOptions, fd: int) -> Config:
    config = Config()
    config.bind = [f"fd://{fd}"]
    config.accesslog = None
    config.errorlog = None
    config.include_server_header = False
    config.graceful_timeout = 3
    config.h2_max_concurrent_streams = 1024
    config.keep_alive_timeout = 75
    config.websocket_max_message_size = REMOTE_FRAME_BYTES
    config.websocket_ping_interval = 20  # R-WS-14
    if options.tls_cert is not None:
        config.certfile = str(options.tls_cert)
        config.keyfile = None if options.tls_key is None else str(options.tls_key)
    return config
