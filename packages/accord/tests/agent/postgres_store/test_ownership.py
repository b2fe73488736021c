"""Several servers on one database: each session has one owner, and nothing sent is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import pytest

from accord import Agent, PostgresStore, Turn
from accord.agent.store import postgres_servers
from accord.errors import InternalError, InvalidRequest, ResourceNotFound, SessionTaken
from agent.harness import BOTH, V1, V2, AgentHarness, connect_client
from agent.test_stored_sessions import load, user_text
from event_loop import drain_event_loop
from postgres import PostgresServer
from requirement import requirement

_WAIT_S = 20.0
_LONG_LEASE_S = 120.0  # more than any test takes


class Server(Agent):
    """An agent with a store of its own, as each server has."""

    unstable = True

    def __init__(self, dsn: str, lease_s: float) -> None:
        self.postgres = self.store = PostgresStore(dsn, lease_s=lease_s)
        self.waits = asyncio.Event()
        self.may_continue = asyncio.Event()
        self.ignores_cancel = False

    async def prompt(self, turn: Turn) -> None:
        if turn.text.startswith("count "):
            for number in range(int(turn.text[6:])):
                await turn.say(f"{number} ")
            return
        await turn.say("one ")
        if turn.text == "wait":
            self.waits.set()
            await self.may_continue.wait()
        await turn.say("two ")


@pytest.fixture
async def serve(dsn: str) -> AsyncGenerator[Callable[..., Server], None]:
    servers: list[Server] = []

    def make(lease_s: float = _LONG_LEASE_S) -> Server:
        servers.append(Server(dsn, lease_s))
        return servers[-1]

    yield make
    for server in servers:
        await server.aclose()


async def sql(dsn: str, statement: str, *values: Any) -> Any:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetch(statement, *values)
    finally:
        await connection.close()


def text(client: AgentHarness) -> str:
    return user_text(client) + ": " + client.said()


@BOTH
async def test_idle_session_moves_to_the_server_that_loads_it(
    version: int, serve: Callable[..., Server]
) -> None:
    a, b = serve(), serve()
    async with connect_client(a, version) as first:
        assert await first.prompt("go") == "end_turn"
        async with connect_client(b, version, opened=False) as second:
            await load(second, first.session_id)
            assert text(second) == "go: one two "
            assert await second.prompt("more") == "end_turn"
            await first.until(lambda: not a.sessions)
            with pytest.raises(ResourceNotFound, match="opened in another client"):
                await first.send("again")
            if version == V2:
                assert "another client" in first.of("Notice")[0].title
        # And back.
        await load(first, first.session_id)
        assert first.said() == "one two one two "


@BOTH
async def test_turn_that_runs_is_cancelled_and_kept_when_another_server_loads_the_session(
    version: int, serve: Callable[..., Server]
) -> None:
    a, b = serve(), serve()
    async with (
        connect_client(a, version) as first,
        connect_client(b, version, opened=False) as second,
    ):
        sent = first.send("wait")
        await a.waits.wait()
        await load(second, first.session_id)
        assert text(second) == "wait: one "
        assert await first.stopped(sent) == "cancelled"
        assert await second.prompt("go") == "end_turn"


@BOTH
async def test_session_of_a_dead_server_is_loaded_at_once(
    version: int, serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_servers, "_RETRY_S", 0.2)
    a, b = serve(), serve()
    async with (
        connect_client(a, version) as first,
        connect_client(b, version, opened=False) as second,
    ):
        sent = first.send("wait")
        await a.waits.wait()
        await first.until(lambda: first.said() == "one ")
        # As if the process had been killed: all its connections close, and it opens no others.
        a.postgres._database._dsn = "postgresql://postgres@/postgres?host=/nowhere"
        a.postgres._database._pool.terminate()
        a.postgres._ownership._server._keeping.cancel()
        await load(second, first.session_id)
        assert text(second) == "wait: one "
        assert await second.prompt("go") == "end_turn"
        sent.cancel()


async def status_of(client: AgentHarness, session_id: str) -> Any:
    request = client.types.SessionStatusRequest(session_id=session_id)
    return await client.remote.session_status(request)


@BOTH
@requirement("R-STATUS-02", "R-STATUS-03", "R-STATUS-07")
async def test_status_tells_that_a_session_is_open_on_another_server(
    version: int, serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_servers, "_RETRY_S", 0.2)
    a, b, c = serve(), serve(), serve()
    async with connect_client(b, version, opened=False) as second:
        async with connect_client(a, version) as first:
            closed = first.session_id
            sent = first.send("wait")
            await a.waits.wait()
            status = await status_of(second, first.session_id)
            assert status.status == "open"
            if version == V2:
                assert status.state is None  # only the other server knows it
            # The question has changed nothing.
            a.may_continue.set()
            assert await first.stopped(sent) == "end_turn"
            assert await first.prompt("go") == "end_turn"
        assert (await status_of(second, closed)).status == "saved"
        async with connect_client(c, version) as third:
            assert (await status_of(second, third.session_id)).status == "open"
            # The server ends without releasing the session.
            c.postgres._database._dsn = "postgresql://postgres@/postgres?host=/nowhere"
            c.postgres._database._pool.terminate()
            keeping = c.postgres._ownership._server._keeping
            assert keeping is not None
            keeping.cancel()
            await asyncio.wait([keeping])
            assert (await status_of(second, third.session_id)).status == "saved"


@BOTH
async def test_server_that_lost_its_session_cannot_write_and_its_client_is_told(
    version: int, serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = serve(), serve(lease_s=0.3)
    async with (
        connect_client(a, version) as first,
        connect_client(b, version, opened=False) as second,
    ):
        sent = first.send("wait")
        await a.waits.wait()
        await first.until(lambda: first.said() == "one ")
        # It does not answer, as if it had been stopped for a while.
        monkeypatch.setattr(a.postgres._ownership, "_receive", lambda _message: None)
        monkeypatch.setattr(a.postgres._ownership._server, "_received", lambda _message: None)
        await load(second, first.session_id)
        assert text(second) == "wait: one "

        a.may_continue.set()
        if version == V1:
            with pytest.raises(InvalidRequest, match="opened on another server"):
                await sent
        else:
            await sent
            await first.until(lambda: first.ends())
            assert "opened on another server" in first.ends()[-1].error.message
        await first.until(lambda: not a.sessions)
        assert first.said() == "one "
        with pytest.raises(ResourceNotFound, match="opened in another client"):
            await first.send("again")

        assert await second.prompt("go") == "end_turn"
        await load(second, second.session_id)
        assert second.said() == "one one two "


@BOTH
async def test_idle_server_closes_a_session_that_it_lost(
    version: int, dsn: str, serve: Callable[..., Server]
) -> None:
    a, b = serve(lease_s=1.0), serve(lease_s=1.0)
    async with connect_client(a, version) as first:
        # Taken by a server whose message did not arrive.
        await sql(dsn, "UPDATE accord_sessions SET fence = fence + 1, owner = NULL")
        async with asyncio.timeout(_WAIT_S):
            while a.sessions:
                await asyncio.sleep(0)
        assert b.sessions == {}
        with pytest.raises(ResourceNotFound, match="opened in another client"):
            await first.send("again")


@BOTH
async def test_session_of_a_silent_server_is_loaded_when_its_lease_has_expired(
    version: int, dsn: str, serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = serve(), serve()
    async with (
        connect_client(a, version) as first,
        connect_client(b, version, opened=False) as second,
    ):
        monkeypatch.setattr(a.postgres._ownership._server, "_received", lambda _message: None)
        loading = asyncio.ensure_future(load(second, first.session_id))
        done, _ = await asyncio.wait([loading], timeout=0.3)
        assert not done  # the server has its lease
        await sql(dsn, "UPDATE accord_servers SET expires_at = clock_timestamp()")
        await loading
        assert await second.prompt("go") == "end_turn"


async def test_two_agents_of_one_process_can_share_a_store(serve: Callable[..., Server]) -> None:
    a, b = serve(), serve()
    b.store = a.store
    async with (
        connect_client(a, V1) as first,
        connect_client(b, V1, opened=False) as second,
    ):
        await first.prompt("go")
        await load(second, first.session_id)
        assert second.said() == "one two "
        assert await second.prompt("go") == "end_turn"
        with pytest.raises(ResourceNotFound, match="opened in another client"):
            await first.send("again")


@pytest.mark.parametrize("what", ["delete", "archive"])
async def test_session_that_another_server_deletes_or_archives_is_closed(
    what: str, serve: Callable[..., Server]
) -> None:
    a, b = serve(), serve()
    async with (
        connect_client(a, V2) as first,
        connect_client(b, V2, opened=False) as second,
    ):
        types, ident = second.types, first.session_id
        if what == "delete":
            await second.remote.delete_session(types.DeleteSessionRequest(session_id=ident))
            assert await b.postgres.get(ident) is None
        else:
            await second.remote.archive_session(types.ArchiveSessionRequest(session_id=ident))
            assert (await b.postgres.get(ident)).archived
        assert not a.sessions
        with pytest.raises(ResourceNotFound, match="opened in another client"):
            await first.send("again")


async def test_title_that_the_user_set_on_another_server_stays(
    serve: Callable[..., Server],
) -> None:
    a, b = serve(), serve()
    async with (
        connect_client(a, V2) as first,
        connect_client(b, V2, opened=False) as second,
    ):
        rename = second.types.SetSessionTitleRequest(session_id=first.session_id, title="Mine")
        await second.remote.set_session_title(rename)
        await a.sessions[first.session_id].set_title("The agent's")
        stored = await b.postgres.get(first.session_id)
        assert (stored.title, stored.title_is_users) == ("Mine", True)


async def test_owner_that_reconnects_keeps_its_sessions(
    dsn: str, server: PostgresServer, serve: Callable[..., Server]
) -> None:
    a, b = serve(), serve()
    async with (
        connect_client(a, V1) as first,
        connect_client(b, V1, opened=False) as second,
    ):
        sent = first.send("count 3000")
        await first.until(lambda: len(first.said()) > 100)
        (before,) = await sql(dsn, "SELECT owner, fence FROM accord_sessions")
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
        await sent
        async with asyncio.timeout(_WAIT_S):
            while (await sql(dsn, "SELECT owner FROM accord_sessions"))[0][0] == before[0]:
                await asyncio.sleep(0)
        assert await first.prompt("go") == "end_turn"
        (after,) = await sql(dsn, "SELECT owner, fence FROM accord_sessions")
        assert after[1] == before[1]
        await load(second, first.session_id)
        assert second.said() == "".join(f"{n} " for n in range(3000)) + "one two "


# What is sent is in the store.


@BOTH
async def test_chunk_is_sent_after_it_is_stored(
    version: int, serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    append = postgres_servers._append
    may_write = asyncio.Event()
    may_write.set()
    statements = 0

    async def waits(connection: Any, batches: Any) -> Any:
        nonlocal statements
        statements += 1
        await may_write.wait()
        return await append(connection, batches)

    monkeypatch.setattr(postgres_servers, "_append", waits)
    a = serve()
    async with connect_client(a, version) as client:
        may_write.clear()
        sent = client.send("count 500")
        may_write.set()
        await asyncio.wait([sent])
        await client.until(lambda: client.said().endswith(" 499 "))
        assert statements < 50

        sent = client.send("wait")
        await a.waits.wait()
        may_write.clear()
        before = client.said()
        a.may_continue.set()
        await drain_event_loop()
        assert client.said() == before
        may_write.set()
        await sent
        await client.until(lambda: client.said().endswith("one two "))


@BOTH
async def test_turn_fails_if_the_database_does_not_come_back(
    version: int,
    server: PostgresServer,
    serve: Callable[..., Server],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgres_servers, "_RETRY_S", 0.3)
    a, b = serve(), serve()
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(connect_client(a, version))
        sent = first.send("wait")
        await a.waits.wait()
        await first.until(lambda: first.said() == "one ")
        await asyncio.to_thread(server.stop)
        try:
            a.may_continue.set()
            if version == V1:
                with pytest.raises(InternalError, match="cannot be stored"):
                    await sent
            else:
                await sent
                await first.until(lambda: first.ends())
                assert "cannot be stored" in first.ends()[-1].error.message
        finally:
            await asyncio.to_thread(server.start)
        assert first.said() == "one "
        assert await first.prompt("go") == "end_turn"
        second = await stack.enter_async_context(connect_client(b, version, opened=False))
        await load(second, first.session_id)
        assert second.said() == "one one two "


async def test_closed_session_is_not_written(serve: Callable[..., Server]) -> None:
    a = serve()
    async with connect_client(a, V1) as client:
        owned = await a.postgres.own(client.session_id, lambda: None)
        await owned.append([b"{}"])
        await owned.release()
        with pytest.raises(Exception, match="closed"):
            await owned.append([b"{}"])
        stored = await a.postgres.get(client.session_id)
        assert stored is not None
        newer = await a.postgres.own(client.session_id, lambda: None)
        with pytest.raises(SessionTaken):
            await a.postgres.append(client.session_id, b"{}")
        await newer.release()
