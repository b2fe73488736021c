"""An editor whose prompt never ends: `waiting_editor.py AGENT…`.

It prints the process id of its agent when the turn runs, and at the end what the caller got.
"""

from __future__ import annotations

import asyncio
import sys

from accord import connect
from accord.errors import AccordError
from accord.transports.process import process


async def _main() -> None:
    transport = process(*sys.argv[1:])()
    try:
        async with connect(transport) as agent:
            session = await agent.new_session(".")
            async with session.prompt("wait forever") as turn:
                async for _event in turn:
                    print(transport.pid, flush=True)
                    break
                await turn.wait()
                print(turn.stop_reason)
    except AccordError as error:
        print(type(error).__name__)


asyncio.run(_main())
