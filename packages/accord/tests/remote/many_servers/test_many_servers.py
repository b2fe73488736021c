"""Servers are killed, stopped and drained under load: no client loses what it was sent."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from remote.many_servers.cluster import (
    SIGCONT,
    SIGSTOP,
    SIGTERM,
    Cluster,
    ServerProcess,
    running_cluster,
)
from remote.many_servers.load import Client, make_clients
from remote.many_servers.page import LEASE_S

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]

SECONDS = float(os.environ.get("ACCORD_MANY_SERVERS_SECONDS", "4"))
CLIENTS = int(os.environ.get("ACCORD_MANY_SERVERS_CLIENTS", "8"))
SEED = int(os.environ.get("ACCORD_MANY_SERVERS_SEED", "0")) or random.randrange(1, 1 << 30)

_END_S = 90.0  # for all clients to finish their turns


async def test_killed_and_silent_servers_lose_nothing(tmp_path: Path) -> None:
    seed = random.Random(SEED)
    print(f"ACCORD_MANY_SERVERS_SEED={SEED}")
    async with running_cluster(tmp_path) as cluster:
        clients = make_clients(cluster, CLIENTS)
        async with loaded(clients) as stop:
            # A machine falls silent, and continues after its sessions were taken from it.
            silent = seed.choice(cluster.servers)
            silent.send(SIGSTOP)
            await asyncio.wait([stop], timeout=2 * LEASE_S)
            silent.send(SIGCONT)
            kills = await kill_servers(cluster, seed, stop)
        report(clients, kills)
        for client in clients:
            await client.check()
        await check_database(cluster)
        assert kills >= 2
        assert sum(client.reconnects for client in clients) >= kills
        assert all(client.completed for client in clients)
        assert "is taken over from server" in cluster.logs()
        assert "Traceback" not in cluster.logs()


async def test_drained_servers_finish_every_turn_that_they_started(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        clients = make_clients(cluster, 6)
        async with loaded(clients) as stop:
            for server in cluster.servers[:2]:
                await asyncio.wait([stop], timeout=1.0)
                server.send(SIGTERM)
                assert await server.ended() == 0
                await server.start()
        report(clients, 2)
        for client in clients:
            await client.check()
            # A prompt that met the end of its server was not received, and can be sent again.
            assert not client.unfinished
        assert any(client.reconnects for client in clients)
        assert "Traceback" not in cluster.logs()


async def kill_servers(cluster: Cluster, seed: random.Random, stop: asyncio.Future[None]) -> int:
    """Kill random servers and start them again; at least one is ready at any time."""
    loop = asyncio.get_running_loop()
    until = loop.time() + SECONDS
    starting: set[asyncio.Task[None]] = set()
    kills = 0

    async def kill(server: ServerProcess) -> None:
        await server.kill()
        await server.start()

    try:
        while loop.time() < until:
            await asyncio.wait([stop, *starting], timeout=seed.uniform(0.2, 1.0))
            assert not stop.done(), "a client has failed"
            ready = [server for server in cluster.servers if server.is_ready]
            if len(ready) > 1:
                starting.add(asyncio.ensure_future(kill(seed.choice(ready))))
                kills += 1
    finally:
        if starting:
            await asyncio.gather(*starting)
    return kills


@asynccontextmanager
async def loaded(clients: Sequence[Client]) -> AsyncGenerator[asyncio.Future[None]]:
    """Run clients during the block; the future is done when one of them has failed."""
    end = asyncio.Event()
    running = [asyncio.ensure_future(client.run(end)) for client in clients]
    all_of_them: asyncio.Future[None] = asyncio.ensure_future(_first_failure(running))
    try:
        async with asyncio.timeout(_END_S):
            await asyncio.gather(*(client.opened.wait() for client in clients))
        yield all_of_them
        end.set()
        async with asyncio.timeout(_END_S):
            await asyncio.gather(*running)
    finally:
        for task in (*running, all_of_them):
            task.cancel()
        await asyncio.wait([*running, all_of_them])


async def _first_failure(running: Sequence[asyncio.Future[None]]) -> None:
    await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)


def report(clients: Sequence[Client], kills: int) -> None:
    """Print what happened, for a test that fails."""
    print(
        f"{kills} servers ended, {sum(client.reconnects for client in clients)} reconnects,"
        f" {sum(len(client.completed) for client in clients)} turns completed,"
        f" {sum(len(client.interrupted) for client in clients)} interrupted"
    )
    for client in clients:
        print(client.name, client.session_id, *client.interrupted, sep="\n    ")


async def check_database(cluster: Cluster) -> None:
    """Check that the entries of no session have a gap or a duplicate."""
    connection = await asyncpg.connect(cluster.dsn)
    try:
        rows = await connection.fetch(
            "SELECT s.entries, count(e.number) AS stored, min(e.number), max(e.number)"
            " FROM accord_sessions AS s LEFT JOIN accord_entries AS e ON e.session_id = s.id"
            " GROUP BY s.id"
        )
    finally:
        await connection.close()
    for row in rows:
        assert row["entries"] == row["stored"] > 0
        assert (row["min"], row["max"]) == (0, row["stored"] - 1)
