"""Updates that are stored in batches are sent in order, after they are stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from accord import Agent, MemoryStore, Turn
from accord.agent import session_core
from accord.agent.store import OwnedSession
from accord.agent.store.sqlite import SqliteStore
from accord.agent.store.stored_sessions import decode_update
from accord.agent.updates import MessageUpdate
from accord.errors import InternalError
from agent.harness import BOTH, V1, AgentHarness, connect_client
from event_loop import drain_event_loop


class FarStore(MemoryStore):
    """A store that writes when it may; `fails` lets writes fail."""

    def __init__(self) -> None:
        super().__init__()
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.fails = False
        self.writes: list[int] = []

    async def own(self, session_id: str, lost: Callable[[], None]) -> OwnedSession:
        return FarSession(self, session_id)

    def texts(self, session_id: str) -> str:
        updates = [decode_update(entry) for entry in self._entries[session_id]]
        said = [u for u in updates if isinstance(u, MessageUpdate) and u.role == "agent"]
        return "".join(str(part) for update in said for part in update.content)


class FarSession(OwnedSession):
    is_batched = True
    _store: FarStore

    async def append(self, entries: Sequence[bytes]) -> None:
        await self._store.may_write.wait()
        if self._store.fails:
            raise InternalError("the store has failed")
        self._store.writes.append(len(entries))
        await super().append(entries)


class Talks(Agent):
    """Says a number of chunks; between two of them it does what a test wants."""

    def __init__(self) -> None:
        self.far = self.store = FarStore()
        self.between: Callable[[Turn], Any] | None = None
        self.said = 0

    async def prompt(self, turn: Turn) -> None:
        for number in range(int(turn.text)):
            await turn.say(f"{number} ")
            self.said += 1
        if self.between is not None:
            await self.between(turn)
            await turn.say("end")


def numbers(count: int) -> str:
    return "".join(f"{number} " for number in range(count))


@BOTH
async def test_chunks_do_not_wait_for_the_store_and_are_sent_after_it(version: int) -> None:
    agent = Talks()
    store = agent.far
    async with connect_client(agent, version) as client:

        async def hold(_turn: Turn) -> None:
            store.may_write.clear()
            for number in range(100):
                await _turn.say(f"more {number} ")
            await drain_event_loop()
            assert "more" not in client.said()
            assert "more" not in store.texts(client.session_id)
            store.may_write.set()

        agent.between = hold
        assert await client.prompt("500") == "end_turn"
        more = "".join(f"more {number} " for number in range(100))
        assert client.said() == f"{numbers(500)}{more}end"
        assert store.texts(client.session_id) == client.said()
        assert len(store.writes) < 50


@BOTH
async def test_permission_request_follows_the_chunks_before_it(version: int) -> None:
    agent = Talks()
    async with connect_client(agent, version) as client:

        async def ask(turn: Turn) -> None:
            async with turn.tool("Delete", kind="delete") as call:
                await turn.say("Now I ask.")
                assert await call.permission()

        def allow(_request: Any) -> str:
            assert client.said().endswith("Now I ask.")
            return "allow_once"

        agent.between, client.allow = ask, allow
        assert await client.prompt("3") == "end_turn"
        assert len(client.asked) == 1


async def test_history_has_the_chunks_before_it() -> None:
    agent = Talks()
    async with connect_client(agent, V1) as client:

        async def look(turn: Turn) -> None:
            history = await turn.session.history()
            assert history[-1].content == ("0 1 2 ",)  # type: ignore[union-attr]

        agent.between = look
        assert await client.prompt("3") == "end_turn"


async def test_agent_waits_while_much_text_waits_for_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_core, "_WAITING_CHARACTERS", 1000)
    agent = Talks()
    async with connect_client(agent, V1) as client:
        agent.far.may_write.clear()
        sent = client.send("1000")
        agent.far.may_write.set()
        await client.until(lambda: agent.said > 0)
        agent.far.may_write.clear()
        await drain_event_loop()
        assert agent.said < 1000
        agent.far.may_write.set()
        assert (await sent).stop_reason == "end_turn"
        assert client.said() == numbers(1000)


@BOTH
async def test_failed_store_fails_the_turn_once_and_nothing_unstored_is_sent(version: int) -> None:
    agent = Talks()
    store = agent.far

    async def fail(_turn: Turn) -> None:
        store.fails = True

    async def prompt(client: AgentHarness) -> str:
        try:
            reason = await client.prompt("3")
        except InternalError as exc:
            return exc.message
        error = client.ends()[-1].error if client.ends() else None
        return str(reason) if error is None else error.message

    async with connect_client(agent, version) as client:
        agent.between = fail
        assert await prompt(client) == "the store has failed"
        shown = client.said()
        assert shown == store.texts(client.session_id)
        store.fails, agent.between = False, None
        client.updates.clear()
        assert await prompt(client) == "end_turn"
        assert client.said() == numbers(3)
        assert store.texts(client.session_id) == shown + numbers(3)


async def test_what_was_said_before_the_client_disconnected_is_stored() -> None:
    agent = Talks()
    store = agent.far

    async def hold(_turn: Turn) -> None:
        store.may_write.clear()
        for number in range(100):
            await _turn.say(f"more {number} ")
        held.set()
        await asyncio.Event().wait()

    agent.between = hold
    held = asyncio.Event()
    async with connect_client(agent, V1) as client:
        sent = client.send("3")
        await held.wait()
        asyncio.get_running_loop().call_later(0.05, store.may_write.set)
    await asyncio.wait([sent])
    assert store.texts(client.session_id).endswith("more 99 ")
    assert sent.exception() is not None


@BOTH
async def test_chunks_have_the_trace_of_their_prompt(version: int) -> None:
    agent = Talks()
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    frames: list[bytes] = []

    def observe(direction: str, frame: Any) -> None:
        if direction == "sent":
            frames.append(bytes(frame))

    async with connect_client(agent, version, observers=[observe]) as client:
        text = client.types.TextContent(text="3")
        request = client.types.PromptRequest(
            session_id=client.session_id, prompt=[text], meta=trace
        )
        await client.remote.prompt(request)
        await client.until(lambda: client.said() == numbers(3))
    chunks = [frame for frame in frames if b"agent_message_chunk" in frame]
    assert len(chunks) == 3
    assert all(trace["traceparent"].encode() in frame for frame in chunks)


class Mixed(Agent):
    """Streams, with a tool call and thoughts between the chunks."""

    def __init__(self, store: MemoryStore | SqliteStore) -> None:
        self.store = store

    async def prompt(self, turn: Turn) -> None:
        for number in range(200):
            await turn.say(f"{number} ")
        async with turn.tool("Look"):
            await turn.say("looked ")
        for number in range(200):
            await turn.think(f"{number} ")
            await turn.say("\ud800" if number == 100 else "said ")
            await asyncio.sleep(0)


@BOTH
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_chunks_are_sent_one_by_one_in_order_and_stored_together(
    version: int, kind: str, tmp_path: Path
) -> None:
    store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "sessions.db")
    async with connect_client(Mixed(store), version) as client:
        assert await client.prompt("go") == "end_turn"
        chunks = [update.content.text for update in client.of("AgentMessageChunk")]
        assert chunks[:200] == [f"{number} " for number in range(200)]
        assert chunks[200:] == ["looked ", *["said "] * 100, chunks[301], *["said "] * 99]
        assert client.said(thought=True) == numbers(200)
        kinds = [type(update).__name__ for update in client.updates]
        place = kinds.index("AgentThoughtChunk")
        assert kinds[place : place + 4] == ["AgentThoughtChunk", "AgentMessageChunk"] * 2
        entries = [decode_update(entry) for entry in await store.read(client.session_id)]
        said = [u for u in entries if isinstance(u, MessageUpdate) and u.role == "agent"]
        assert "".join(str(part) for u in said for part in u.content)[: len(numbers(200))] == (
            numbers(200)
        )
        assert str(said[2].content[0]).count(" ") > 150  # most of the first message
    await store.aclose()


async def test_a_fast_stream_is_written_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_core, "_PAUSE_S", 3600)  # then only what ends the turn writes

    class Ticks(Agent):
        store = MemoryStore()

        async def prompt(self, turn: Turn) -> None:
            for number in range(100):
                await turn.say(f"{number} ")
                await asyncio.sleep(0)

    agent = Ticks()
    async with connect_client(agent, V1) as client:
        assert await client.prompt("go") == "end_turn"
        assert client.said() == numbers(100)
        entries = [decode_update(entry) for entry in await agent.store.read(client.session_id)]
        said = [u for u in entries if isinstance(u, MessageUpdate) and u.role == "agent"]
        assert len(said) < 6


async def test_chunks_of_a_session_that_was_deleted_are_not_sent() -> None:
    class Loses(Agent):
        store = MemoryStore()

        async def prompt(self, turn: Turn) -> None:
            await turn.say("one ")
            await turn.say("two ")
            await turn.say("three ")
            await drain_event_loop()
            await self.store.delete(turn.session.id)
            await turn.say("lost ")
            await asyncio.sleep(0.01)
            await turn.say("lost ")

    async with connect_client(Loses(), V1) as client:
        with pytest.raises(InternalError):
            await client.prompt("go")
        assert "lost" not in client.said()


@BOTH
@pytest.mark.parametrize("base", [MemoryStore, SqliteStore])
async def test_store_that_appends_itself_gets_each_chunk_before_it_is_sent(
    version: int, base: type[Any], tmp_path: Path
) -> None:
    entries: list[bytes] = []

    class Counts(base):
        async def append(self, session_id: str, entry: bytes) -> None:
            entries.append(entry)
            await super().append(session_id, entry)

    store = Counts(*([tmp_path / "sessions.db"] if base is SqliteStore else []))
    async with connect_client(Mixed(store), version) as client:
        assert await client.prompt("go") == "end_turn"
    said = [u for e in entries if isinstance(u := decode_update(e), MessageUpdate)]
    assert sum(u.role == "thought" for u in said) == 200
    await store.aclose()
