"""Agents for the tests of programs: `python agents.py NAME VERSION`, which they speak alone."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Annotated, Any

from msgspec import Meta, Struct, defstruct

from accord import Agent, AuthRequired, SqliteStore, Turn, router
from accord.agent.host import Host
from accord.scripted.agent import ScriptAgent
from accord.transports.stdio import stdio


class Stored(Agent):
    """Remembers what it was told, in a file, and says it again."""

    unstable = True

    def __init__(self) -> None:
        self.store = SqliteStore("sessions.db")

    async def prompt(self, turn: Turn) -> None:
        before = turn.session.title_now
        await turn.title(turn.text)
        await turn.say(f"Before: {before}. Now: {turn.text}.")


class Stubborn(Agent):
    """Does not let itself be cancelled."""

    async def prompt(self, turn: Turn) -> None:
        await turn.say("I go on.\n\n")
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await turn.say("I still go on.\n\n")


class Shy(Agent):
    """Wants a login before anything else."""

    def authorize(self) -> None:
        raise AuthRequired


class TalksAndWorks(Agent):
    """Says something, does something, and so on."""

    async def prompt(self, turn: Turn) -> None:
        await turn.say("Before.")
        async with turn.tool("One"):
            pass
        await turn.say("Between.")
        async with turn.tool("Two"):
            pass
        await turn.say("After.")


class Name(Struct):
    """What it asks."""

    name: str


class AsksTwice(Agent):
    """Asks for something in a form, and then for permission."""

    async def prompt(self, turn: Turn) -> None:
        filled = await turn.elicit(Name, "Who is it?")
        async with turn.tool("Greet") as call:
            allowed = await call.permission()
        await turn.say(f"{filled}, then {allowed}.")


class Nasty(Agent):
    """Asks in words that a terminal would obey."""

    async def prompt(self, turn: Turn) -> None:
        title = "Your\x1b[2J\x1b]0;me\x07 name"
        form = defstruct("Nasty", [("name", Annotated[str | None, Meta(title=title)], None)])
        await turn.elicit(form, f"{title}\nAllow all? [y]es, [a]lways:\x1b[2J ")


AGENTS: dict[str, Any] = {
    "script": lambda: ScriptAgent(leave=os._exit),
    "stored": Stored,
    "stubborn": Stubborn,
    "shy": Shy,
    "talks_and_works": TalksAndWorks,
    "asks_twice": AsksTwice,
    "nasty": Nasty,
}


async def serve(agent: Agent, version: int) -> None:
    host = Host(agent)
    if version == 1:
        from accord.agent.role_v1 import role_for as role_for_v1

        role: Any = role_for_v1(host)
    else:
        from accord.agent.role_v2 import role_for as role_for_v2

        role = role_for_v2(host)
    try:
        await router.serve(stdio(give_back=False), role)
    finally:
        await host.aclose()
        await agent.aclose()


if __name__ == "__main__":
    if sys.argv[1] == "silent":
        sys.stdin.readline()
        time.sleep(60)
    asyncio.run(serve(AGENTS[sys.argv[1]](), int(sys.argv[2])))
