"""Stores with a full disk, a locked file or a long session."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import tracemalloc
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest

from accord import (
    Agent,
    MemoryStore,
    OptionChoice,
    SelectOption,
    SessionStore,
    SqliteStore,
    Turn,
)
from accord.agent import FallbackStore
from accord.agent.store import PAGE_ENTRIES, StoredSession, fallback, stored_sessions
from accord.agent.store.stored_sessions import Collapser, StoredSessions, encode_update
from accord.agent.updates import (
    MessageUpdate,
    OptionsUpdate,
    ToolCallUpdate,
    ToolContentUpdate,
    Update,
)
from accord.testing import StoreContract
from agent.harness import BOTH, V1, connect_client
from event_loop import drain_event_loop

POSIX = pytest.mark.skipif(os.name != "posix", reason="modes of files are of POSIX")


class Echo(Agent):
    """Repeats the prompt."""

    def __init__(self, store: SessionStore) -> None:
        self.store = store

    async def prompt(self, turn: Turn) -> None:
        async with turn.tool("Look") as call:
            await call.append_text("looked")
        await turn.say(turn.text)


def _modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def _session(session_id: str = "a", **fields: Any) -> StoredSession:
    return StoredSession(id=session_id, cwd="/", updated_at="2026-01-01T00:00:00.000000Z", **fields)


class Locked:
    """Another process that holds the lock of a file."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("BEGIN IMMEDIATE")

    def release(self) -> None:
        self._db.execute("COMMIT")
        self._db.close()


# Locks.


@pytest.mark.parametrize("work", ["create", "append", "update", "delete", "copy"])
async def test_event_loop_runs_while_another_process_locks_the_file(
    tmp_path: Path, work: str
) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path)
    await store.create(_session())
    other = Locked(path)
    does = {
        "create": lambda: store.create(_session("b")),
        "append": lambda: store.append("a", b"1"),
        "update": lambda: store.update(_session(title="new")),
        "delete": lambda: store.delete("a"),
        "copy": lambda: store.copy("a", _session("b")),
    }
    doing = asyncio.ensure_future(does[work]())
    await drain_event_loop()  # the event loop is not blocked
    assert await asyncio.wait_for(_read_elsewhere(path), 10) == []
    assert not doing.done()
    other.release()
    await asyncio.wait_for(doing, 10)
    await store.aclose()


async def _read_elsewhere(path: Path) -> list[bytes]:
    store = SqliteStore(path)
    try:
        return await store.read("a")
    finally:
        await store.aclose()


async def test_entries_keep_their_order_while_the_file_is_locked(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path)
    await store.create(_session())
    other = Locked(path)
    doing = [asyncio.ensure_future(store.append("a", b"%d" % n)) for n in range(20)]
    await drain_event_loop()
    other.release()
    doing += [asyncio.ensure_future(store.append("a", b"%d" % n)) for n in range(20, 40)]
    await asyncio.gather(*doing)
    assert await store.read("a") == [b"%d" % n for n in range(40)]
    await store.aclose()


async def test_file_that_stays_locked_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from accord.agent.store import sqlite

    monkeypatch.setattr(sqlite, "_BUSY_S", 0.05)
    path = tmp_path / "sessions.db"
    store = SqliteStore(path)
    await store.create(_session())
    other = Locked(path)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        await store.append("a", b"1")
    other.release()
    await store.append("a", b"2")
    assert await store.read("a") == [b"2"]
    await store.aclose()


# Long sessions.


async def _filled(store: SessionStore, entries: Sequence[Update]) -> StoredSessions:
    await store.create(_session(), [encode_update(report) for report in entries])
    return StoredSessions(store)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_other_sessions_run_while_a_long_session_is_loaded(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "sessions.db")
    # A mix of some long messages and many short tool calls.
    entries: list[Update] = []
    for number in range(4000):
        entries += [
            MessageUpdate("agent", f"message-{number // 1000}", ("word ",)),
            ToolCallUpdate(id=f"tool-{number}", is_new=True, title="Look", status="completed"),
        ]
    sessions = await _filled(store, entries)
    read = shown = 0
    real = stored_sessions.decode_update

    def counted(entry: bytes) -> Update | None:
        nonlocal read
        read += 1
        return real(entry)

    monkeypatch.setattr(stored_sessions, "decode_update", counted)
    most = before = 0

    async def others() -> None:
        nonlocal most, before
        while True:
            most = max(most, read + shown - before)
            before = read + shown
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(others())
    loaded = await sessions.load("a")
    async for _ in loaded.updates(running=False):
        shown += 1
    beside.cancel()
    assert read == 8000
    assert shown == 4004
    # A turn of another session takes a dozen steps of the event loop: all of them are short.
    assert most <= 64 + 1
    assert not loaded.collapser.free(1)
    await store.aclose()


def test_what_was_replayed_is_freed_in_steps() -> None:
    fold = Collapser()
    for number in range(1000):
        fold.add(MessageUpdate("agent", f"message-{number}", ("word",)))
        fold.add(ToolCallUpdate(id=f"tool-{number}", is_new=True, title="Look"))
        fold.add(ToolContentUpdate(f"tool-{number}", "word", continues=True))
    assert len(list(fold.result(running=False))) == 2000
    steps = 1
    while fold.free(50):
        steps += 1
    assert steps == 2000 / 50
    assert not list(fold.result(running=False))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_long_session_is_read_without_a_list_of_all_entries(
    tmp_path: Path, kind: str
) -> None:
    """The garbage collector would go through it, which stops all other sessions."""
    store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "sessions.db")
    await store.create(_session(), [b"%d" % number for number in range(50_000)])
    tracemalloc.start()
    try:
        count = 0
        async for page in store.read_pages("a"):
            assert len(page) <= PAGE_ENTRIES
            count += len(page)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 50_000
    assert peak < 200_000  # a list has 400 kB
    await store.aclose()


async def test_session_that_is_resumed_without_a_replay_keeps_its_options_and_numbers() -> None:
    choices = OptionChoice("small", "Small"), OptionChoice("large", "Large")
    options = SelectOption(id="model", name="M", value="large", choices=choices)
    sessions = await _filled(
        MemoryStore(), [MessageUpdate("agent", "message-1", ("word",)), OptionsUpdate((options,))]
    )
    loaded = await sessions.load("a", replay=False)
    assert (loaded.count, loaded.options) == (2, (options,))
    assert [update async for update in loaded.updates(running=False)] == []


async def test_large_entries_are_read_in_small_pages(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.db")
    await store.create(_session(), [b"x" * 500_000] * 12)
    pages = [len(page) async for page in store.read_pages("a")]
    assert sum(pages) == 12
    assert max(pages) <= 3
    await store.aclose()


async def test_entries_added_during_a_read_are_not_part_of_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.db")
    await store.create(_session(), [b"1"] * 1000)
    count = 0
    async for page in store.read_pages("a"):
        count += len(page)
        await store.append("a", b"2")
    assert count == 1000
    await store.aclose()


async def test_loading_a_long_session_takes_memory_for_the_replay_only(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.db")
    count = 10_000
    output: list[Update] = [ToolCallUpdate(id="tool-1", is_new=True, title="Look")]
    output += [ToolContentUpdate("tool-1", "word ", continues=True)] * count
    output += [MessageUpdate("agent", "message-1", ("word ",))] * count
    sessions = await _filled(store, output)
    del output
    tracemalloc.start()
    try:
        loaded = await sessions.load("a")
        shown = [report async for report in loaded.updates(running=False)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(shown) == 2
    # Two texts of 50 kB, some copies of them, and a few pages; as a list it was 7 MB.
    assert peak < 2_000_000
    await store.aclose()


class Slow(MemoryStore):
    """Runs other code between two pages."""

    between: Any = None

    async def read_pages(self, session_id: str) -> AsyncGenerator[Sequence[bytes], None]:
        async for page in super().read_pages(session_id):
            yield page
            if self.between is not None:
                await self.between()


@BOTH
async def test_message_sent_during_a_replay_is_shown_once_after_it(version: int) -> None:
    store = Slow()
    said = asyncio.Event()
    more = asyncio.Event()

    class Talks(Agent):
        async def prompt(self, turn: Turn) -> None:
            await turn.say("one ")
            said.set()
            await more.wait()
            await turn.say("two ")

    agent = Talks()
    agent.store = store
    async with connect_client(agent, version) as client:
        sent = client.send("go")
        await said.wait()
        await client.until(lambda: client.said() == "one ")

        async def between() -> None:
            more.set()
            await drain_event_loop()

        store.between = between
        del client.updates[:]
        if version == V1:
            request: Any = client.types.LoadSessionRequest(
                session_id=client.session_id, cwd=client.cwd, mcp_servers=[]
            )
            await client.remote.load_session(request)
        else:
            request = client.types.ResumeSessionRequest(
                session_id=client.session_id,
                cwd=client.cwd,
                replay_from=client.types.ReplayFromStart(),
            )
            await client.remote.resume_session(request)
        if version == V1:
            assert await client.stopped(sent) == "end_turn"
        else:  # the replay ends with a state, too, before or after that of the turn
            await client.until(lambda: any(e.stop_reason == "end_turn" for e in client.ends()))
        assert client.said() == "one two "


# Full disks.


class TestFallbackStore(StoreContract):
    async def store(self) -> SessionStore:
        return FallbackStore(MemoryStore())

    async def reopened(self, store: SessionStore) -> SessionStore:
        return store


class Full(SqliteStore):
    """A store on a disk that can be filled."""

    async def fill(self) -> None:
        def work(db: sqlite3.Connection) -> None:
            (pages,) = db.execute("PRAGMA page_count").fetchone()
            db.execute(f"PRAGMA max_page_count = {pages}")

        await self._long(work)

    async def empty(self) -> None:
        await self._long(lambda db: db.execute("PRAGMA max_page_count = 1000000"))


@BOTH
async def test_agent_continues_when_the_disk_is_full(
    version: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Full(tmp_path / "sessions.db")
    long = "x" * 20_000
    async with connect_client(Echo(FallbackStore(disk)), version) as client:
        assert await client.prompt("first") == "end_turn"
        await disk.fill()
        for _ in range(3):
            assert await client.prompt(long) == "end_turn"
        old = client.session_id
        await client.open()  # a new session
        assert await client.prompt(long) == "end_turn"
        assert client.session_id != old
        listed = await client.remote.list_sessions(client.types.ListSessionsRequest())
        assert {info.session_id for info in listed.sessions} == {old, client.session_id}
    assert caplog.text.count("sessions are no longer stored") == 1


async def test_store_receives_missed_entries_when_it_works_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Full(tmp_path / "sessions.db")
    store = FallbackStore(disk)
    await store.create(_session("a"), [b"1"])
    await disk.fill()
    await store.append("a", b"2" * 20_000)
    await store.update(_session("a", title="new"))
    await store.create(_session("b"), [b"3" * 20_000])
    await store.append("b", b"4")
    assert await store.read("a") == [b"1", b"2" * 20_000]
    assert await store.read("b") == [b"3" * 20_000, b"4"]
    assert await store.get("a") == _session("a", title="new")
    assert await disk.read("a") == [b"1"]
    await store.copy("b", _session("c"))
    assert await store.read("c") == [b"3" * 20_000, b"4"]
    await disk.empty()
    monkeypatch.setattr(fallback, "RETRY_S", 0.0)
    store._retry_at = 0.0
    await store.append("a", b"5")
    await store.append("b", b"6")
    await store.append("c", b"7")
    assert await disk.read("a") == [b"1", b"2" * 20_000, b"5"]
    assert await disk.get("a") == _session("a", title="new")
    assert await disk.read("b") == [b"3" * 20_000, b"4", b"6"]
    assert await disk.read("c") == [b"3" * 20_000, b"4", b"7"]
    assert "stored again" in caplog.text
    await store.aclose()


async def test_full_disk_rolls_back_the_whole_transaction(tmp_path: Path) -> None:
    disk = Full(tmp_path / "sessions.db")
    await disk.create(_session("a"))
    await disk.fill()
    with pytest.raises(sqlite3.OperationalError, match="full"):
        await disk.create(_session("b"), [b"x" * 100_000])
    assert await disk.get("b") is None
    await disk.empty()
    await disk.create(_session("b"), [b"x"])
    assert await disk.read("b") == [b"x"]
    await disk.aclose()


# File permissions.


@POSIX
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
async def test_only_the_owner_can_read_the_store(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o775)
    before = os.umask(umask)
    try:
        store = SqliteStore(folder / "sessions.db")
        await store.create(_session(), [b"1"])
        modes = _modes(folder)
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("sessions.db", "sessions.db-wal", "sessions.db-shm"), 0o600)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o775
    await store.aclose()


@POSIX
async def test_readable_file_is_restricted_to_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path)
    await store.create(_session(), [b"1"])
    for name in _modes(tmp_path):
        (tmp_path / name).chmod(0o644)
    again = SqliteStore(path)
    assert await again.read("a") == [b"1"]
    assert set(_modes(tmp_path).values()) == {0o600}
    await again.aclose()
    await store.aclose()


@POSIX
async def test_file_can_be_shared_explicitly(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path, mode=0o660)
    await store.create(_session())
    assert set(_modes(tmp_path).values()) == {0o660}
    await store.aclose()
