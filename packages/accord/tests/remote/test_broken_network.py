"""Broken networks and killed servers, over real sockets: no gap, no duplicate, clear errors."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import accord
from accord import Agent, MemoryStore, Reconnect, Turn
from accord.errors import ConnectionLost, TransportError, TurnInterrupted
from accord.transports import http as http_streams
from accord.transports.registry import RemoteOptions
from accord.transports.websocket import websocket
from event_loop import poll_until
from needs import needs
from remote.servers import hypercorn
from remote.tcp_proxy import TcpProxy, tcp_proxy
from remote.test_reconnect import Changes
from requirement import requirement
from versions import only

pytestmark = pytest.mark.usefixtures("closing_is_quick")

SEED = int(os.environ.get("ACCORD_SEED", "7"))
TOKEN = "a token of a test, long enough"
AGENT = """
import asyncio
from pathlib import Path

from accord import Agent, SqliteStore, Turn


class Counter(Agent):
    store = SqliteStore("sessions.db")

    async def open_session(self, session):
        if Path("slow").exists():
            Path("opening").touch()
            await asyncio.Event().wait()

    async def prompt(self, turn: Turn) -> None:
        for number in range(int(turn.text)):
            await turn.say(f"{number} ")
            await asyncio.sleep(0.001)
"""


def numbers(count: int) -> str:
    return "".join(f"{number} " for number in range(count))


class Server:
    """`accord serve` as a process that is killed and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "counter.py").write_text(AGENT)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        command = [sys.executable, "-m", "accord", "serve", "--port", str(self.port)]
        self.process = await asyncio.create_subprocess_exec(
            *command,
            "counter:Counter",
            cwd=self.folder,
            env={**os.environ, "ACCORD_TOKEN": TOKEN},
            stderr=asyncio.subprocess.PIPE,
        )
        assert self.process.stderr is not None
        # A client that tries again may connect before the address is printed.
        while not (line := await self.process.stderr.readline()).startswith(b"Serving on"):
            assert b" open connection=" in line, line

    async def kill(self) -> None:
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
        await self.process.communicate()


@asynccontextmanager
async def served(
    folder: Path, scheme: str, version: int, changes: Callable[[Any], None] | None = None
) -> AsyncGenerator[tuple[Server, accord.ConnectedAgent]]:
    server = Server(folder)
    await server.start()
    settings = Reconnect(attempts=200, wait_s=0.05, max_wait_s=0.2, on_change=changes)
    url = f"{scheme}://127.0.0.1:{server.port}"
    try:
        async with accord.connect(
            url, token=TOKEN, reconnect=settings, versions=only(version)
        ) as client:
            yield server, client
    finally:
        await server.kill()


@requirement("R-WS-17")
@pytest.mark.parametrize(("scheme", "version"), [("ws", 1), ("http", 2)])
@needs("accord_terminal")
async def test_server_that_is_killed_during_a_turn(
    tmp_path: Path, scheme: str, version: int
) -> None:
    async with served(tmp_path, scheme, version) as (server, client):
        session = await client.new_session("/")
        seen = ""
        turn = session.prompt("100000")
        async with turn:
            with suppress(TurnInterrupted):
                async for event in turn:
                    if isinstance(event, accord.Text):
                        seen += event.text
                        if event.text == "20 ":
                            await server.kill()
                            await server.start()
        error = turn.error
        assert isinstance(error, TurnInterrupted)
        assert error.in_history is True
        assert error.agent_works is (None if version == 1 else False)
        count = len(seen.split())
        assert count > 20
        assert seen == numbers(count) == session.transcript.text
        async with session.prompt("3") as turn:
            assert await turn.wait() == "end_turn"
        assert turn.text == numbers(3)


@pytest.mark.parametrize(("scheme", "version"), [("ws", 2), ("http", 1)])
@needs("accord_terminal")
async def test_server_that_is_killed_during_a_load(
    tmp_path: Path, scheme: str, version: int
) -> None:
    changes = Changes()
    async with served(tmp_path, scheme, version, changes) as (server, client):
        session = await client.new_session("/")
        async with session.prompt("3") as turn:
            await turn.wait()
        await session.close()
        slow = tmp_path / "slow"
        slow.touch()
        loading = asyncio.create_task(client.load_session(session.id, "/"))
        await poll_until((tmp_path / "opening").exists)
        assert not loading.done()
        await server.kill()
        with pytest.raises(TransportError):
            await loading
        slow.unlink()
        await server.start()
        again = await client.load_session(session.id, "/")
        assert again.transcript.text == numbers(3)


@pytest.mark.parametrize("scheme", ["ws", "http"])
@needs("accord_terminal")
async def test_server_that_is_killed_during_a_request_and_stays_away(
    tmp_path: Path, scheme: str
) -> None:
    server = Server(tmp_path)
    await server.start()
    settings = Reconnect(attempts=2, wait_s=0.01)
    url = f"{scheme}://127.0.0.1:{server.port}"
    try:
        async with accord.connect(url, token=TOKEN, reconnect=settings) as client:
            (tmp_path / "slow").touch()
            opening = asyncio.create_task(client.new_session("/"))
            await poll_until((tmp_path / "opening").exists)
            await server.kill()
            with pytest.raises(TransportError):
                await opening
            with pytest.raises(ConnectionLost, match="in 2 attempts") as raised:
                await client.new_session("/")
            assert "Cannot connect" in str(raised.value)
    finally:
        await server.kill()


class Counter(Agent):
    """Says numbers, and makes tool calls, until all are said."""

    async def prompt(self, turn: Turn) -> None:
        for number in range(30):
            await turn.say(f"{number} ")
            if number % 10 == 9:
                async with turn.tool(f"Tool {number}", kind="read") as call:
                    await asyncio.sleep(0.001)
                    await call.add_content(str(number))
            if number % 13 == 0:
                await turn.think("hm ")


@requirement("R-WS-17")
@pytest.mark.slow
@pytest.mark.timeout(150)
@pytest.mark.parametrize(
    ("scheme", "version", "cuts"), [("ws", 1, 8), ("ws", 2, 4), ("http", 1, 4), ("http", 2, 4)]
)
async def test_connection_that_is_cut_many_times_has_no_gap_and_no_duplicate(
    scheme: str, version: int, cuts: int
) -> None:
    agent = Counter()
    agent.store = MemoryStore()
    changes = Changes()
    settings = Reconnect(attempts=20, wait_s=0.005, max_wait_s=0.05, on_change=changes)
    texts: list[str] = []
    ended: list[str] = []
    async with (
        asyncio.timeout(120),
        hypercorn(accord.asgi(agent, insecure=True)) as address,
        tcp_proxy(address) as (proxy, through),
        accord.connect(
            f"{scheme}://{through}", reconnect=settings, versions=only(version)
        ) as client,
    ):
        session = await client.new_session("/")
        cutting = asyncio.create_task(_cut(proxy, changes, cuts))
        while not cutting.done() or not ended or ended[-1] != "end_turn":
            turn = session.prompt("count")
            async with turn:
                with suppress(TurnInterrupted):
                    async for event in turn:
                        if isinstance(event, accord.Text):
                            texts.append(event.text)  # noqa: PERF401  # an error can end it
            assert turn.error is None or isinstance(turn.error, TurnInterrupted)
            ended.append(turn.stop_reason or "")
        await cutting
        assert "error" in ended
        assert changes.states.count("connected") >= cuts
        async with accord.connect(f"ws://{address}", versions=only(version)) as other:
            stored = (await other.load_session(session.id, "/")).transcript
    held = session.transcript
    # Each text was delivered once, and is what the agent has stored.
    said = "".join(m.text for m in held.messages if m.role == "agent")
    assert "".join(texts) == said
    assert said == "".join(m.text for m in stored.messages if m.role == "agent")
    assert _thoughts(held) == _thoughts(stored)
    assert {c.id: (c.status, c.content) for c in held.tool_calls} == {
        c.id: (c.status, c.content) for c in stored.tool_calls
    }
    for part in said.split("0 1 ")[1:]:
        whole = f"0 1 {part}"
        assert numbers(len(whole.split())) == whole


def _thoughts(transcript: accord.Transcript) -> str:
    return "".join(m.text for m in transcript.messages if m.role == "thought")


async def _cut(proxy: TcpProxy, changes: Changes, cuts: int) -> None:
    """Cut the connection many times, each time while it is used."""
    chance = random.Random(SEED)
    for _ in range(cuts):
        changes.connected.clear()
        await asyncio.sleep(chance.uniform(0.0, 0.04))
        proxy.cut()
        async with asyncio.timeout(10):
            await changes.connected.wait()


@requirement("R-WS-14", "R-WS-17")
@pytest.mark.parametrize("version", [1, 2])
async def test_silent_connection_is_noticed_by_the_ping(version: int) -> None:
    agent = Counter()
    agent.store = MemoryStore()
    changes = Changes()
    async with (
        hypercorn(accord.asgi(agent, insecure=True)) as address,
        tcp_proxy(address) as (proxy, through),
    ):

        def on_change(change: accord.ConnectionChange) -> None:
            changes(change)
            if change.state == "reconnecting":
                proxy.resume()  # new connections are not silent

        quick = websocket(
            f"ws://{through}", RemoteOptions(), ping_interval_s=0.05, ping_timeout_s=0.05
        )
        settings = Reconnect(wait_s=0.01, on_change=on_change)
        async with accord.connect(quick, reconnect=settings, versions=only(version)) as client:
            session = await client.new_session("/")
            proxy.silence()
            turn = session.prompt("count")
            async with turn:
                with pytest.raises(TurnInterrupted, match="code 1011"):
                    await turn.wait()
            async with session.prompt("count") as turn:
                assert await turn.wait() == "end_turn"
            assert changes.states == ["reconnecting", "connected"]


@requirement("R-WS-17")
@pytest.mark.parametrize("version", [1, 2])
async def test_silent_event_stream_is_noticed(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Counter()
    agent.store = MemoryStore()
    usual = http_streams.SILENCE_S
    async with (
        hypercorn(accord.asgi(agent, insecure=True)) as address,
        tcp_proxy(address) as (proxy, through),
    ):

        def on_change(change: accord.ConnectionChange) -> None:
            if change.state == "reconnecting":
                monkeypatch.setattr(http_streams, "SILENCE_S", usual)
                proxy.resume()

        settings = Reconnect(wait_s=0.01, on_change=on_change)
        url = f"http://{through}"
        monkeypatch.setattr(http_streams, "SILENCE_S", 0.5)
        async with accord.connect(url, reconnect=settings, versions=only(version)) as client:
            session = await client.new_session("/")
            proxy.silence()
            turn = session.prompt("count")
            async with turn:
                with pytest.raises(TurnInterrupted, match="the server is silent"):
                    await turn.wait()
            async with session.prompt("count") as turn:
                assert await turn.wait() == "end_turn"
