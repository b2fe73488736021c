"""An agent that is a function; see test_clients.py for what it does."""

import asyncio


async def agent(prompt, session):
    match prompt.split():
        case ["wait"]:
            yield "waiting"
            await asyncio.Event().wait()
        case ["write", word]:
            await session.plan(["Write it"])
            async with session.tool("Write the note") as call:
                done = await call.edit("note.txt", word)
            yield "written" if done else "rejected"
        case _:
            yield "You said "
            yield prompt
