"""Prompts, cancels, permission requests, closes and disconnects at any moment."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Any

import accord
from accord import Agent, MemoryStore, PermissionOption, Turn, connect
from accord.errors import AccordError
from accord.transports.memory import pair
from attack.watch import watched
from raw_peer import QUICK
from versions import only

__all__ = ("RACES", "attack")

RACES = 12  # in one attack
_OPTIONS = [
    PermissionOption("allow", "Allow", "allow_once"),
    PermissionOption("reject", "Reject", "reject_once"),
]
_MOST_STEPS = 40  # iterations of the event loop between two actions


class _Agent(Agent):
    """Does everything that can race with actions of its client."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.store = MemoryStore()

    async def decide_permission(self, call: Any) -> bool | None:
        return None

    async def prompt(self, turn: Turn) -> str | None:
        rng = self.rng
        for _ in range(rng.randrange(6)):
            await _later(rng)
            match rng.randrange(6):
                case 0:
                    await turn.think("Well.")
                case 1:
                    async with turn.tool("Look", kind="read") as call:
                        await call.add_content("something")
                        await _later(rng)
                case 2:
                    async with turn.tool("Change", kind="edit") as call:
                        await call.request_choice(_OPTIONS)
                case 3:
                    plan = await turn.plan(["one", "two"])
                    await plan.update(0, status="completed")
                case 4:
                    await turn.set_title("A title")
                case _:
                    await turn.say("word ")
        return rng.choice([None, "refusal"])


async def _later(rng: random.Random) -> None:
    for _ in range(rng.randrange(_MOST_STEPS)):
        await asyncio.sleep(0)


def attack(seed: int) -> int:
    """Run races in one connection; return their number."""
    return asyncio.run(_attack(random.Random(seed)))


async def _attack(rng: random.Random) -> int:
    version: Any = rng.choice((1, 2))
    async with watched():
        here, there = pair(limit_bytes=rng.choice((1, 1000, 256 * 1024)))
        serving = asyncio.ensure_future(accord.serve(_Agent(rng), here, limits=QUICK))

        async def decide(request: Any) -> Any:
            await _later(rng)
            return rng.choice(["allow", "reject", None])

        # Only errors that peers can cause are expected: any other is a defect.
        with suppress(AccordError):
            async with connect(
                there, versions=only(version), permissions=decide, limits=QUICK
            ) as client:
                sessions = [await client.new_session("/") for _ in range(2)]
                async with asyncio.TaskGroup() as group:
                    for _ in range(RACES):
                        group.create_task(_one(rng, client, rng.choice(sessions)))
                        await _later(rng)
                    if rng.random() < 0.3:
                        serving.cancel()  # the agent exits during a turn
        with suppress(asyncio.CancelledError):
            await serving
    return RACES


async def _one(rng: random.Random, client: Any, session: Any) -> None:
    await _later(rng)
    with suppress(AccordError):
        match rng.randrange(8):
            case 0 | 1 | 2:
                await _prompt(rng, session)
            case 3:
                await session.cancel()
            case 4:
                task = asyncio.ensure_future(_prompt(rng, session))
                await _later(rng)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            case 5:
                await session.close()
            case 6:
                await client.load_session(session.id, "/")
            case _:
                await session.status()


async def _prompt(rng: random.Random, session: Any) -> None:
    with suppress(AccordError):
        async with session.prompt("go", cancel_timeout_s=5.0) as turn:
            async for _ in turn:
                if rng.random() < 0.05:
                    await turn.cancel()
                if rng.random() < 0.02:
                    return
        assert turn.stop_reason in ("end_turn", "refusal", "cancelled"), turn.stop_reason
