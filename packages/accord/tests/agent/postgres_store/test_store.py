"""Sessions in PostgreSQL: the contract, faults of the database, and several writers."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace

from accord import PostgresStore, SessionStore
from accord.agent.store import StoredSession, postgres_servers
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
    append = postgres_servers._append

    async def counted(connection: object, batches: object) -> object:
        nonlocal statements
        statements += 1
        return await append(connection, batches)  # type: ignore[arg-type]

    monkeypatch.setattr(postgres_servers, "_append", counted)
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
    append = postgres_servers._append
    lost = False

    async def loses_the_first_answer(connection: object, batches: object) -> object:
        nonlocal lost
        result = await append(connection, batches)  # type: ignore[arg-type]
        if not lost:
            lost = True
            raise ConnectionResetError
        return result

    monkeypatch.setattr(postgres_servers, "_append", loses_the_first_answer)
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
    monkeypatch.setattr(postgres_servers, "_RETRY_S", 0.2)
    store = PostgresStore(f"postgresql://postgres@/postgres?host={tmp_path}")
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="cannot be stored"):
            await store.get("a")
    with pytest.raises(StoreUnavailable):
        await store.append("a", b"1")
    await store.aclose()
    assert len([record for record in caplog.records if "fails" in record.message]) == 1


class SilentSocket:
    """A Unix socket that passes bytes to that of a database, until it falls silent."""

    def __init__(self, folder: Path, target: Path) -> None:
        self.dsn = f"postgresql://postgres@/postgres?host={folder}"
        self._path = folder / ".s.PGSQL.5432"
        self._target = target / ".s.PGSQL.5432"
        self.may_pass = asyncio.Event()
        self.may_pass.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to_there = await asyncio.open_unix_connection(self._target)
        for source, target in ((reader, to_there), (there, writer)):
            task = asyncio.create_task(self._pass(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                await self.may_pass.wait()
                target.write(data)
                await target.drain()
        except ConnectionError:
            pass
        finally:
            target.close()

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[None, None]:
        server = await asyncio.start_unix_server(self._accept, self._path)
        try:
            yield
        finally:
            self.may_pass.set()
            server.close()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=5)


async def test_silent_database_is_an_error_and_late_statements_store_nothing(
    dsn: str, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_servers, "COMMAND_S", 0.3)
    monkeypatch.setattr(postgres_servers, "_RETRY_S", 0.5)
    folder = Path(tempfile.mkdtemp(prefix="accord-"))
    silent = SilentSocket(folder, server.folder)
    schema = dsn.rpartition("=")[2]
    store = PostgresStore(f"{silent.dsn}&search_path={schema}")
    try:
        async with silent.serve(), asyncio.timeout(20):
            await store.create(_session())
            owned = await store.own("a", lambda: None)
            await owned.append([b"1"])
            silent.may_pass.clear()
            with pytest.raises(StoreUnavailable):
                await owned.append([b"2"])
            silent.may_pass.set()
            await owned.append([b"3"])
            await owned.append([b"4"])
            await store.aclose()
        # The entry that failed was stored before the others, or not at all.
        direct = PostgresStore(dsn)
        assert await direct.read("a") in ([b"1", b"3", b"4"], [b"1", b"2", b"3", b"4"])
        await direct.aclose()
    finally:
        shutil.rmtree(folder)


async def test_statement_that_arrives_after_its_repetition_does_nothing(
    dsn: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = postgres_servers._append
    late: list[Any] = []

    async def loses_the_first(connection: Any, batches: dict[str, postgres_servers._Batch]) -> Any:
        if not late:
            for name, batch in batches.items():
                assert batch.position is not None
                late.append({name: replace(batch, position=replace(batch.position))})
            raise ConnectionResetError
        return await append(connection, batches)

    await store.create(_session(), [b"0"])
    owned = await store.own("a", lambda: None)
    monkeypatch.setattr(postgres_servers, "_append", loses_the_first)
    await owned.append([b"1"])
    await owned.append([b"2"])
    connection = await asyncpg.connect(dsn)
    again = await postgres_servers._append_once(connection, late[0], {})
    await connection.close()
    assert list(again) == ["a"]
    assert await store.read("a") == [b"0", b"1", b"2"]
