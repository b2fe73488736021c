"""v1 client on the official Python SDK: loads a session on a new connection by its URL."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import acp
from acp.http.client import create_http_stream
from acp.ws import create_websocket_stream

CWD = str(Path.cwd())


class Peer(acp.Client):
    def __init__(self) -> None:
        self.said: list[str] = []
        self.changed = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.said.append(update.content.text)
        self.changed.set()

    async def take(self, last: str) -> list[str]:
        while last not in self.said:
            self.changed.clear()
            await self.changed.wait()
        taken, self.said = self.said, []
        return taken


async def connected(url: str, work: Any) -> Any:
    login = {"Authorization": f"Bearer {os.environ['ACCORD_TOKEN']}"}
    peer = Peer()
    if url.startswith("ws://"):
        stream = await create_websocket_stream(url, headers=login)
    else:
        stream = create_http_stream(url, headers=login)
    agent = acp.connect_to_agent(peer, stream)
    await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
    found = await work(agent, peer)
    await agent.close()
    return found


async def main(url: str) -> None:
    async def prompt(agent: Any, session: str, text: str) -> None:
        await agent.prompt(session_id=session, prompt=[{"type": "text", "text": text}])

    async def first(agent: Any, peer: Peer) -> str:
        session = await agent.new_session(cwd=CWD, mcp_servers=[])
        await prompt(agent, session.session_id, "first")
        return session.session_id

    session = await connected(url, first)

    async def second(agent: Any, peer: Peer) -> dict[str, Any]:
        await agent.load_session(cwd=CWD, session_id=session, mcp_servers=[])
        # This SDK opens the stream of the session when it has the response.
        replayed = await peer.take("first: the end")
        await prompt(agent, session, "second")
        return {"replayed": replayed, "said": await peer.take("second: the end")}

    print(json.dumps(await connected(url, second)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
