"""Gateways that listen, for the tests of their protocols."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from accord.remote.server import ServerOptions, Stop, run_server
from accord_bridges.gateways.app import GatewayApp
from accord_terminal.sessions.named import open_session
from accord_terminal.sessions.records import OwnerError, Store, has_owner
from accord_terminal.toolkit.agent_names import AgentEntry, NamedAgent

AGENT = Path(__file__).with_name("gateway_agent.py")
_STOP_S = 60


def named(name: str, program: Path = AGENT) -> NamedAgent:
    """Return an agent that is a program of Python, which gets its name."""
    argv = (sys.executable, str(program), name)
    entry = AgentEntry(command=list(argv))
    return NamedAgent(name=name, argv=argv, source="command line", entry=entry)


@asynccontextmanager
async def listening(
    app: GatewayApp, *, port: int = 0, drain_s: float = 0
) -> AsyncGenerator[tuple[str, Stop], None]:
    """Serve a gateway; yield its URL and what stops it. At the end, its agents end, too."""
    stop = Stop()
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    server = asyncio.create_task(
        run_server(
            app,
            ServerOptions(port=port, drain_s=drain_s),
            lambda sockets: ready.set_result(sockets[0].getsockname()[1]),
            stop,
        )
    )
    try:
        yield f"http://127.0.0.1:{await ready}", stop
    finally:
        stop.request()
        async with asyncio.timeout(_STOP_S):
            await server
        await stop_owners()


async def stop_owners() -> None:
    """End the agents of all sessions."""
    for record in Store():
        if not has_owner(record.id):
            continue
        with suppress(OwnerError):  # it ends by itself
            async with open_session(record.id, record.cwd, create=False) as shared:
                await shared.agent.call_extension("_accord/session/stop")
