"""An agent that reads what the user says in one of several ways, and notes what it has heard.

python steered_agent.py KIND SEED FILE     as a process, which notes it in a file
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from accord import Agent, InvalidParams, RequestError, SteeringMessage, Turn

__all__ = ("KINDS", "Note", "steered_agent")

PLANNED = 7001  # the code of a turn that fails as planned
_MOST_STEPS = 30  # iterations of the event loop between two actions

# What happened, in which session: `heard` a text, `denied` a permission request.
Note = Callable[[str, str, str], None]


class _Steered(Agent):
    """Works for some steps, asks at times, fails at times."""

    def __init__(self, rng: random.Random, note: Note) -> None:
        self.rng = rng
        self.note = note

    async def decide_permission(self, call: Any) -> bool | None:
        return None

    async def later(self) -> None:
        for _ in range(self.rng.randrange(_MOST_STEPS)):
            await asyncio.sleep(0)

    async def prompt(self, turn: Turn) -> None:
        self.note("heard", turn.session.id, turn.text)
        async with self.listening(turn):
            for _ in range(self.rng.randrange(7)):
                await self.step(turn)
        if self.rng.random() < 0.04:
            raise RequestError("The turn fails as planned", code=PLANNED)

    async def step(self, turn: Turn) -> None:
        await self.later()
        match self.rng.randrange(6):
            case 0:
                async with turn.tool("Change", kind="edit") as call:
                    if not await call.permission() and not turn.cancelled:
                        self.note("denied", turn.session.id, "")
            case 1:
                async with turn.tool("Look", kind="read") as call:
                    await call.add_content("something")
                    await self.later()
            case 2:
                await asyncio.sleep(self.rng.random() * 0.003)
            case _:
                for _ in range(self.rng.choice((1, 1, 1, 50))):
                    await turn.say("word ")
        self.hear(turn)

    def hear(self, turn: Turn) -> None:
        """Look for messages between two steps."""

    @asynccontextmanager
    async def listening(self, turn: Turn) -> AsyncGenerator[None]:
        """Listen beside the work."""
        yield


class _Reads(_Steered):
    """Takes the messages between steps."""

    steering = True

    def hear(self, turn: Turn) -> None:
        for message in turn.take_steering():
            self.note("heard", turn.session.id, message.text)


class _Iterates(_Steered):
    """Iterates over the messages in a task of its own."""

    steering = True

    async def listen(self, turn: Turn) -> None:
        async for message in turn.steering():
            self.note("heard", turn.session.id, message.text)
            await self.later()

    @asynccontextmanager
    async def listening(self, turn: Turn) -> AsyncGenerator[None]:
        task = asyncio.create_task(self.listen(turn))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


class _Waits(_Steered):
    """Waits for messages in place of work, for a short time."""

    steering = True

    async def step(self, turn: Turn) -> None:
        await super().step(turn)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.rng.random() * 0.003):
                async for message in turn.steering():
                    self.note("heard", turn.session.id, message.text)


class _Collects(_Steered):
    """Reads nothing: each message is a further prompt."""

    steering = True


class _Overrides(_Steered):
    """Gives the messages to something else, or refuses them."""

    async def steer(self, turn: Turn, message: SteeringMessage) -> None:
        await self.later()
        if self.rng.random() < 0.1:
            raise InvalidParams("Not now")
        self.note("heard", turn.session.id, message.text)


class _Mixed(_Steered):
    """Takes some messages at once, and leaves the others to the default."""

    async def steer(self, turn: Turn, message: SteeringMessage) -> None:
        await super().steer(turn, message)

    def hear(self, turn: Turn) -> None:
        if self.rng.random() < 0.5:
            for message in turn.take_steering():
                self.note("heard", turn.session.id, message.text)


KINDS: dict[str, type[_Steered]] = {
    "reads": _Reads,
    "iterates": _Iterates,
    "waits": _Waits,
    "collects": _Collects,
    "overrides": _Overrides,
    "mixed": _Mixed,
    "cannot": _Steered,
}


def steered_agent(kind: str, rng: random.Random, note: Note) -> _Steered:
    """Return an agent of a kind."""
    return KINDS[kind](rng, note)


def _main(kind: str, seed: str, file: str) -> None:
    def note(what: str, session_id: str, text: str) -> None:
        with Path(file).open("a", encoding="utf-8") as out:
            out.write(json.dumps([what, session_id, text]) + "\n")

    steered_agent(kind, random.Random(seed), note).run()


if __name__ == "__main__":
    _main(*sys.argv[1:])
