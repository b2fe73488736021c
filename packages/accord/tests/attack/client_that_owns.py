"""A client whose agent runs a command; prints the output of the command, then waits."""

from __future__ import annotations

import asyncio
import os
import sys

from accord import TerminalOutputChunk, connect
from accord.client.permissions import allow


async def main() -> None:
    version, *command = sys.argv[1:]
    options = {"terminals": True} if version == "1" else {}
    async with connect(
        command,
        versions=(int(version),),  # type: ignore[arg-type]  # 1 or 2
        permissions=allow("*"),
        **options,  # type: ignore[arg-type]  # as above
    ) as agent:
        session = await agent.new_session("/")
        async with session.prompt("run") as turn:
            async for event in turn:
                if isinstance(event, TerminalOutputChunk):
                    os.write(1, event.data)


asyncio.run(main())
