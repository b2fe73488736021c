"""The official Python SDK's WebSocket and HTTP server, with the agent of py_agent.py.

With the argument `stored`, its agent is that of py_stored.py.
"""

import asyncio
import socket
import sys
from typing import Any

from acp.http.asgi import create_asgi_app
from hypercorn.asyncio import serve
from hypercorn.config import Config
from py_agent import Peer
from py_stored import Stored


def new_agent(client: Any) -> Any:
    peer = Stored() if sys.argv[1:] == ["stored"] else Peer(echoes_version=False)
    peer.on_connect(client)
    return peer


async def main() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    config = Config()
    config.bind = [f"fd://{listening.detach()}"]
    config.errorlog = None
    print(f"ws://127.0.0.1:{port}/acp", flush=True)
    await serve(create_asgi_app(new_agent), config)  # type: ignore[arg-type]


if __name__ == "__main__":
    asyncio.run(main())
