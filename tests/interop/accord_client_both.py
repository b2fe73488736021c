"""Client on Accord for v1 and v2: the agent decides which version is used."""

import asyncio
import json
import sys

import accord_client
import accord_client_v2

from accord import v1
from accord.roles import connect
from accord.transports.process import process


async def main(command: list[str]) -> None:
    screen, screen_v2 = accord_client.Screen(), accord_client_v2.Screen()
    async with connect(process(*command), screen, screen_v2) as agent:
        if isinstance(agent, v1.RemoteAgent):
            report = await accord_client.turns(agent, screen)
        else:
            report = await accord_client_v2.turns(agent, screen_v2)
    print(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
