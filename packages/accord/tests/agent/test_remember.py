"""What an agent remembers of a session: stored and copied with it, and never sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import accord
from accord import Agent, MemoryStore, SqliteStore, Turn
from accord.transports.memory import pair
from agent.harness import BOTH, V2
from versions import only


class _Counts(Agent):
    """Remembers all prompts, and says how many there were."""

    unstable = True

    def __init__(self, store: Any) -> None:
        self.store = store

    async def prompt(self, turn: Turn) -> None:
        known = turn.session.remembered or []
        match turn.text:
            case "forget":
                await turn.session.remember(known[:1])
            case "fail":
                await turn.session.remember([object()])
            case text:
                messages = [*known, {"text": text}]
                await turn.session.remember(messages)
                messages[0] = "changed after it was given"
        await turn.say(" ".join(each["text"] for each in turn.session.remembered))


@asynccontextmanager
async def connect(agent: Agent, version: int = V2) -> AsyncGenerator[accord.ConnectedAgent, None]:
    """Yield a client of the agent, which is closed with it."""
    here, there = pair()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(accord.serve(agent, there))
        async with accord.connect(here, versions=only(version)) as client:
            yield client
    await agent.aclose()


async def ask(session: accord.ClientSession, text: str) -> str:
    """Run a turn and return what the agent says."""
    async with session.prompt(text) as turn:
        await turn.wait()
    return turn.text


@BOTH
async def test_remembered_value_outlives_the_process_and_is_copied(
    version: int, tmp_path: Path
) -> None:
    path = tmp_path / "sessions.sqlite3"
    async with connect(_Counts(SqliteStore(path)), version) as agent:
        session = await agent.new_session(tmp_path)
        for text in ("one", "two", "three"):
            said = await ask(session, text)
        assert said == "one two three"
        assert await ask(session, "forget") == "one"
        assert await ask(session, "four") == "one four"
    async with connect(_Counts(SqliteStore(path)), version) as agent:
        copy = await agent.fork_session(session.id, tmp_path)
        loaded = await agent.load_session(session.id, tmp_path)
        assert await ask(loaded, "five") == "one four five"
        assert await ask(copy, "six") == "one four six"


async def test_only_new_items_are_written(tmp_path: Path) -> None:
    store = MemoryStore()
    async with connect(_Counts(store)) as agent:
        session = await agent.new_session(tmp_path)
        for number in range(3):
            await ask(session, f"prompt-{number}")
        entries = [e for e in await store.read(session.id) if b'"remembered"' in e]
    assert len(entries) == 3
    assert b"prompt-0" not in entries[2]


async def test_what_json_cannot_hold_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async with connect(_Counts(MemoryStore())) as agent:
        session = await agent.new_session(tmp_path)
        await ask(session, "one")
        with pytest.raises(Exception, match="Internal error"):
            await ask(session, "fail")
        assert await ask(session, "two") == "one two"


async def test_after_a_cancelled_call_the_next_value_is_stored_whole(tmp_path: Path) -> None:
    """What was cancelled may be stored or not: memory and store agree again."""
    path = tmp_path / "sessions.sqlite3"

    class Forgetful(_Counts):
        async def prompt(self, turn: Turn) -> None:
            session = turn.session
            if turn.text == "cancelled":
                task = asyncio.create_task(session.remember([{"text": "summary"}]))
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                known = session.remembered
                await session.remember([*known, {"text": "d"}])
                await turn.say(" ".join(each["text"] for each in session.remembered))
            else:
                await super().prompt(turn)

    async with connect(Forgetful(SqliteStore(path))) as agent:
        session = await agent.new_session(tmp_path)
        for text in ("a", "b"):
            await ask(session, text)
        said = await ask(session, "cancelled")
    async with connect(_Counts(SqliteStore(path))) as agent:
        loaded = await agent.load_session(session.id, tmp_path)
        assert await ask(loaded, "e") == f"{said} e"
