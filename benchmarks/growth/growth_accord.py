"""What an item costs on average where there are few of them, and where there are many.

Agent and client run in this process, connected by memory, through the public API. A cost that
grows with what came before shows as a ratio far above 1.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from accord import (
    Agent,
    ClientSession,
    ClientTurn,
    ConnectedAgent,
    Text,
    ToolCall,
    Turn,
    connect,
    serve,
)
from accord.transports.memory import pair

WARM = 20  # items before the time is taken
SAMPLE = 1000  # items where their number is not what grows


class Grower(Agent):
    """Does as many of something as the prompt asks for."""

    async def prompt(self, turn: Turn) -> None:
        order = json.loads(turn.text)
        await getattr(self, order["do"])(turn, order["n"])

    async def say(self, turn: Turn, number: int) -> None:
        for _ in range(number):
            await turn.say("another piece ")

    async def show(self, turn: Turn, number: int) -> None:
        async with turn.tool("Show") as call:
            for index in range(number):
                await call.add_content(f"line {index}")

    async def shows(self, turn: Turn, number: int) -> None:
        """Show and say by turns: what was postponed is sent before what is said."""
        async with turn.tool("Show") as call:
            for _ in range(number):
                await call.append_text("x")
                await turn.say("y")


@asynccontextmanager
async def connected(version: int) -> AsyncGenerator[ConnectedAgent, None]:
    here, there = pair()
    serving = asyncio.ensure_future(serve(Grower(), there))
    async with connect(here, versions=(version,)) as agent:
        yield agent
    await serving


async def cost(number: int, work: Callable[[int], Awaitable[object]]) -> float:
    """Return the µs that one of so many items takes on average."""
    await work(WARM)
    gc.collect()
    start = time.perf_counter()
    await work(number)
    return (time.perf_counter() - start) / number * 1e6


async def turn_of(session: ClientSession, do: str, number: int) -> None:
    async with session.prompt(json.dumps({"do": do, "n": number})) as turn:
        await turn.wait()


async def each_event(
    session: ClientSession, do: str, number: int, kind: type, look: Callable[[ClientTurn], object]
) -> None:
    """Look at the turn after each event of a kind."""
    async with session.prompt(json.dumps({"do": do, "n": number})) as turn:
        async for event in turn:
            if isinstance(event, kind):
                look(turn)


async def sessions(number: int) -> float:
    """Open sessions."""
    async with connected(1) as agent:

        async def opening(number: int) -> None:
            for _ in range(number):
                await agent.new_session("/")

        return await cost(number, opening)


async def tool_chunk(number: int) -> float:
    """Receive what a tool call shows in chunks (v2)."""
    async with connected(2) as agent:
        session = await agent.new_session("/")
        return await cost(
            number, lambda n: each_event(session, "show", n, ToolCall, lambda turn: None)
        )


async def text(number: int) -> float:
    """Read all of the text after each piece."""
    async with connected(1) as agent:
        session = await agent.new_session("/")
        return await cost(
            number, lambda n: each_event(session, "say", n, Text, lambda turn: len(turn.text))
        )


async def prompts(number: int) -> float:
    """Run turns of a session (v1)."""
    async with connected(1) as agent:
        session = await agent.new_session("/")

        async def prompting(number: int) -> None:
            for _ in range(number):
                await turn_of(session, "say", 1)

        return await cost(number, prompting)


async def catch_up(number: int) -> float:
    """Say something after something was postponed, with so many other sessions open (v1)."""
    async with connected(1) as agent:
        for _ in range(number):
            await turn_of(await agent.new_session("/"), "shows", 1)
        session = await agent.new_session("/")
        return await cost(SAMPLE, lambda n: turn_of(session, "shows", n))


async def tool_content(number: int) -> float:
    """Show one thing after another in a tool call (v1)."""
    async with connected(1) as agent:
        session = await agent.new_session("/")
        return await cost(number, lambda n: turn_of(session, "show", n))


ITEMS = {
    "sessions": sessions,
    "tool-chunk": tool_chunk,
    "text": text,
    "prompts": prompts,
    "catch-up": catch_up,
    "tool-content": tool_content,
}


def main() -> None:
    item, few, many = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    few_us, many_us = (asyncio.run(ITEMS[item](number)) for number in (few, many))
    print("RESULT", json.dumps({"few_us": few_us, "many_us": many_us, "ratio": many_us / few_us}))


if __name__ == "__main__":
    main()
