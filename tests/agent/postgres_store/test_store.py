"""Sessions in PostgreSQL: the contract, faults of the database, and several writers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import asyncpg
import pytest

from accord import PostgresStore, SessionStore
from accord.agent.store.base import StoredSession
from accord.agent.store.postgres import append_queue, database
from accord.errors import StoreUnavailable
from accord.testing import StoreContract
from postgres import PostgresServer


@pytest.fixture
async def store(dsn: str) -> AsyncGenerator[PostgresStore, None]:
    store = PostgresStore(dsn)
    yield store
    await store.aclose()


def _session(session_id: str = "a", **fields: object) -> StoredSession:
    return StoredSession(
        id=session_id,
        cwd="/",
        updated_at="2026-01-01T00:00:00.000000Z",
        **fields,  # type: ignore[arg-type]
    )


class TestPostgresStore(StoreContract):
    @pytest.fixture(autouse=True)
    def address(self, dsn: str) -> None:
        self.dsn = dsn

    async def store(self) -> SessionStore:
        return PostgresStore(self.dsn)

    async def reopened(self, store: SessionStore) -> SessionStore:
        return PostgresStore(self.dsn)


# Tables.


async def test_servers_that_start_at_once_create_the_tables_once(dsn: str) -> None:
    stores = [PostgresStore(dsn) for _ in range(5)]
    try:
        pages = await asyncio.gather(*(store.list() for store in stores))
        assert [page.sessions for page in pages] == [()] * 5
    finally:
        for store in stores:
            await store.aclose()


async def test_tables_of_a_newer_version_are_not_used(dsn: str, store: PostgresStore) -> None:
    await store.create(_session())
    connection = await asyncpg.connect(dsn)
    await connection.execute("UPDATE accord_version SET version = 99")
    await connection.close()
    newer = PostgresStore(dsn)
    with pytest.raises(ValueError, match="version 99"):
        await newer.get("a")
    await newer.aclose()


async def test_text_that_postgres_rejects_is_not_found(store: PostgresStore) -> None:
    for text in ("a\0b", "\ud83d"):
        assert await store.get(text) is None
        await store.delete(text)
        assert (await store.list(cwd=text)).sessions == ()
        for work in (store.append(text, b"1"), store.read(text), store.copy(text, _session())):
            with pytest.raises(KeyError):
                await work
        with pytest.raises(ValueError, match="cursor"):
            await store.list(cursor=f"2026 {text}")
    await store.create(_session(title="a\0b \ud83d"))
    assert (await store.get("a")).title == "a?b ?"


async def test_copy_has_the_entries_and_continues_independently(store: PostgresStore) -> None:
    await store.create(_session(), [b"1", b"2"])
    await store.copy("a", _session("b"))
    await store.append("a", b"3")
    await store.append("b", b"4")
    assert await store.read("a") == [b"1", b"2", b"3"]
    assert await store.read("b") == [b"1", b"2", b"4"]
    with pytest.raises(ValueError, match="exists"):
        await store.copy("a", _session("b"))


async def test_long_session_is_read_in_pages(store: PostgresStore) -> None:
    entries = [b"%d" % number for number in range(700)]
    await store.create(_session(), entries)
    for size in (100, 3 << 20, 3 << 20):
        entries.append(b"x" * size)
        await store.append("a", entries[-1])
    sizes = [len(page) async for page in store.read_pages("a")]
    assert sum(sizes) == len(entries)
    assert max(sizes) <= 256
    assert await store.read("a") == entries


# Batches.


async def test_entries_that_wait_are_written_together(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements = 0
    append = append_queue._append

    async def counted(connection: object, batches: object) -> object:
        nonlocal statements
        statements += 1
        return await append(connection, batches)  # type: ignore[arg-type]

    monkeypatch.setattr(append_queue, "_append", counted)
    for name in "abc":
        await store.create(_session(name))
    await asyncio.gather(
        *(store.append(name, b"%d" % number) for number in range(500) for name in "abc")
    )
    assert statements <= 3
    for name in "abc":
        assert await store.read(name) == [b"%d" % number for number in range(500)]


async def test_unknown_session_does_not_reject_the_entries_of_others(store: PostgresStore) -> None:
    await store.create(_session())
    done = await asyncio.gather(
        store.append("a", b"1"), store.append("b", b"2"), return_exceptions=True
    )
    assert done[0] is None
    assert isinstance(done[1], KeyError)
    assert await store.read("a") == [b"1"]


async def test_two_servers_can_append_to_a_session_without_an_owner(dsn: str) -> None:
    stores = PostgresStore(dsn), PostgresStore(dsn)
    await stores[0].create(_session())
    await asyncio.gather(
        *(store.append("a", b"%d" % number) for number in range(50) for store in stores)
    )
    found = await stores[0].read("a")
    assert sorted(found) == sorted(b"%d" % number for number in range(50) for _ in range(2))
    for store in stores:
        await store.aclose()


# A database that fails.


async def test_restart_of_the_database_loses_and_repeats_nothing(
    dsn: str, server: PostgresServer, store: PostgresStore
) -> None:
    await store.create(_session())
    done = asyncio.Event()
    written: list[bytes] = []

    async def write() -> None:
        while not done.is_set() or len(written) < 500:
            entry = b"%d" % len(written)
            await store.append("a", entry)
            written.append(entry)

    writing = asyncio.ensure_future(write())
    for _ in range(2):
        before = len(written)
        async with asyncio.timeout(20):
            while len(written) < before + 50:
                await asyncio.sleep(0)
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
    done.set()
    await writing
    assert await store.read("a") == written


async def test_append_whose_answer_was_lost_is_stored_once(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.create(_session())
    append = append_queue._append
    lost = False

    async def loses_the_first_answer(connection: object, batches: object) -> object:
        nonlocal lost
        result = await append(connection, batches)  # type: ignore[arg-type]
        if not lost:
            lost = True
            raise ConnectionResetError
        return result

    monkeypatch.setattr(append_queue, "_append", loses_the_first_answer)
    await store.append("a", b"1")
    await store.append("a", b"2")
    assert await store.read("a") == [b"1", b"2"]


async def test_create_whose_answer_was_lost_succeeds(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = store._database.run
    lost = False

    async def loses_the_first_answer(work: object) -> object:
        async def once(connection: object) -> object:
            nonlocal lost
            result = await work(connection)  # type: ignore[operator]
            if not lost:
                lost = True
                raise ConnectionResetError
            return result

        return await run(once)

    monkeypatch.setattr(store._database, "run", loses_the_first_answer)
    await store.create(_session(), [b"1"])
    assert await store.read("a") == [b"1"]
    lost = False
    await store.copy("a", _session("b"))
    assert await store.read("b") == [b"1"]
    lost = False
    with pytest.raises(ValueError, match="exists"):
        await store.create(_session("b"))


async def test_database_that_does_not_answer_is_an_error_after_a_bounded_wait(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database, "_RETRY_S", 0.2)
    store = PostgresStore(f"postgresql://postgres@/postgres?host={tmp_path}")
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="cannot be stored"):
            await store.get("a")
    with pytest.raises(StoreUnavailable):
        await store.append("a", b"1")
    await store.aclose()
    assert len([record for record in caplog.records if "fails" in record.message]) == 1
