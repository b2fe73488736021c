"""Serves the agent of the benchmarks on the network, by PyPI `agent-client-protocol`."""

from __future__ import annotations

import asyncio
import resource
import socket
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "agents"))

from acp.http.asgi import create_asgi_app
from agent_official import BenchAgent
from hypercorn.asyncio import serve
from hypercorn.config import Config


def new_agent(client: Any) -> BenchAgent:
    agent = BenchAgent()
    agent.on_connect(client)
    return agent


async def main() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    listening = socket.create_server(("127.0.0.1", 0), backlog=100)
    address = f"127.0.0.1:{listening.getsockname()[1]}/acp"
    config = Config()
    config.bind = [f"fd://{listening.detach()}"]
    config.errorlog = None
    print(f"ws://{address} http://{address}", flush=True)
    await serve(create_asgi_app(new_agent), config)


asyncio.run(main())
