"""Serves MCP servers to agents that start stdio servers only, which is every agent.

The agent starts `accord.mcp.shim`, which connects back to this program.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server import Server
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter
from pydantic import ValidationError

from accord.mcp.closing import wait_stopped
from accord.mcp.lifespan import ServerLifespan
from accord.mcp.servers import NamedServer
from accord.mcp.shim import PORT, TOKEN
from accord.types.mcp import McpServerStdio

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
