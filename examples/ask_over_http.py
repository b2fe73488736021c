"""Serve an agent, and ask it by WebSocket, by HTTP/1.1 and by HTTP/2."""

import asyncio
import sys

import accord
from accord.transports.registry import RemoteOptions, transport_for_url

TOKEN = "a secret of this example"


async def ask(url: str, **settings: bool) -> str:
    options = RemoteOptions(token=TOKEN, **settings)
    async with accord.connect(transport_for_url(url, options)) as agent:
        session = await agent.new_session("/")
        async with session.prompt("echo hello") as turn:
            await turn.wait()
        return turn.text


async def main() -> None:
    command = [sys.executable, "-m", "accord", "serve", "--port", "0"]
    served = [*command, "--", sys.executable, "-m", "accord", "agent", "script"]
    server = await asyncio.create_subprocess_exec(
        *served, env={"ACCORD_TOKEN": TOKEN}, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert server.stderr is not None
        line = (await server.stderr.readline()).decode()
        websocket = next(word for word in line.split() if word.startswith("ws://"))
        http = websocket.replace("ws://", "http://")
        print("WebSocket:", await ask(websocket))
        print("HTTP/1.1:", await ask(http))
        print("HTTP/2:", await ask(http, h2c=True))
    finally:
        server.terminate()
        await server.communicate()


if __name__ == "__main__":
    asyncio.run(main())
