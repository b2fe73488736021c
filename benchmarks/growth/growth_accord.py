"""What an item costs on average where there are few of them, and where there are many.

Agent and client run in this process, connected by memory, through the public API. A cost that
grows with what came before shows as a ratio far above 1. While there are many, another session
of the same connection prompts again and again, with a thousand idle ones: how long its longest turn
takes is measured, too.
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
    MemoryStore,
    Text,
    ToolCall,
    Turn,
    connect,
    serve,
)
from accord.connection.limits import Limits
from accord.transports.memory import pair

WARM = 20  # items before the time is taken
SAMPLE = 1000  # items where their number is not what grows
ENTRIES_PER_TURN = 1000
PAUSE_S = 0.002  # between the turns of the other session
IDLE_SESSIONS = 1000  # open while the waits of the other session are measured


class Grower(Agent):
    """Does as many of something as the prompt asks for."""

    async def prompt(self, turn: Turn) -> None:
        order = json.loads(turn.text)
        await getattr(self, order["do"])(turn, order["n"])

    async def say(self, turn: Turn, number: int) -> None:
        for _ in range(number):
            await turn.say("another piece ")

    async def nothing(self, turn: Turn, number: int) -> None:
        pass

    async def show(self, turn: Turn, number: int) -> None:
        async with turn.tool("Show") as call:
            for index in range(number):
                await call.add_content(f"line {index}")

    async def entries(self, turn: Turn, number: int) -> None:
        """Have entries stored that a replay cannot join: messages and tool calls by turns."""
        for index in range(number // 4):
            await turn.say(f"message {index}")
            async with turn.tool(f"Tool {index}") as call:
                await call.add_content("done")

    async def shows(self, turn: Turn, number: int) -> None:
        """Show and say by turns: what was postponed is sent before what is said."""
        async with turn.tool("Show") as call:
            for _ in range(number):
                await call.append_text("x")
                await turn.say("y")


class Waits:
    """The turns of another session, while what is measured runs."""

    longest_ms = 0.0
    measuring = False


WAITS = Waits()


@asynccontextmanager
async def connected(
    version: int, store: MemoryStore | None = None
) -> AsyncGenerator[ConnectedAgent, None]:
    here, there = pair()
    agent = Grower()
    agent.store = store
    serving = asyncio.ensure_future(serve(agent, there, limits=Limits(sessions=1_000_000)))
    async with connect(here, versions=(version,)) as connection:
        other = None
        if WAITS.measuring:
            for _ in range(IDLE_SESSIONS):
                await connection.new_session("/")
            session = await connection.new_session("/")
            other = asyncio.ensure_future(_prompt_again_and_again(session))
        yield connection
        if other is not None:
            other.cancel()
            await asyncio.wait([other])
    await serving


async def _prompt_again_and_again(session: ClientSession) -> None:
    while True:
        start = time.perf_counter()
        await turn_of(session, "nothing", 1)
        WAITS.longest_ms = max(WAITS.longest_ms, (time.perf_counter() - start) * 1e3)
        await asyncio.sleep(PAUSE_S)


async def cost(number: int, work: Callable[[int], Awaitable[object]]) -> float:
    """Return the µs that one of so many items takes on average."""
    await work(WARM)
    gc.collect()
    WAITS.longest_ms = 0.0
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


async def load(number: int) -> float:
    """Load a stored session with so many entries (v1)."""
    store = MemoryStore()
    async with connected(1, store) as agent:
        session = await agent.new_session("/")
        for start in range(0, number, ENTRIES_PER_TURN):
            await turn_of(session, "entries", min(ENTRIES_PER_TURN, number - start))
        session_id = session.id
    async with connected(1, store) as agent:
        gc.collect()
        WAITS.longest_ms = 0.0
        start = time.perf_counter()
        loaded = await agent.load_session(session_id, "/")
        elapsed = time.perf_counter() - start
        assert len(loaded.transcript.tool_calls) >= number // 4
        return elapsed / number * 1e6


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
    "load": load,
    "catch-up": catch_up,
    "tool-content": tool_content,
}


def main() -> None:
    item, few, many = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    few_us, many_us = (asyncio.run(ITEMS[item](number)) for number in (few, many))
    WAITS.measuring = True
    asyncio.run(ITEMS[item](many))
    numbers = {
        "few_us": few_us,
        "many_us": many_us,
        "ratio": many_us / few_us,
        "wait_ms": WAITS.longest_ms,
    }
    print("RESULT", json.dumps(numbers))


if __name__ == "__main__":
    main()
