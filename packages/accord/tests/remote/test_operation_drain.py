"""A server that goes away: its running turns end, its clients are notified."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect as ws_connect
from websockets.exceptions import InvalidStatus

import accord
from accord import Agent, ClientTurn, Text, Turn
from accord.errors import ConnectionClosed, ConnectionLost, RequestError, TransportError
from accord.remote.access import ConnectionLimits
from accord.remote.asgi import RemoteApp
from accord.version import ProtocolVersion
from event_loop import POLL_S
from needs import needs
from remote.servers import hypercorn

TOKEN = "a token of a test, long enough"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}

# An agent that ends its turn when it receives a notification.
WAITING = """
import asyncio
from accord import Agent, ClientTurn, Text, Turn


class Waiting(Agent):
    def __init__(self) -> None:
        self.released = asyncio.Event()

    async def extension_notification(self, method, params, client) -> None:
        self.released.set()

    async def prompt(self, turn: Turn) -> None:
        await turn.say("started")
        await self.released.wait()
        await turn.say(" and finished")


if __name__ == "__main__":
    Waiting().run()
"""


class Waiting(Agent):
    """Its turns end when they are released."""

    def __init__(self) -> None:
        super().__init__()
        self.started = asyncio.Event()
        self.released = asyncio.Event()

    async def prompt(self, turn: Turn) -> None:
        self.started.set()
        await self.released.wait()
        await turn.say("finished")


@asynccontextmanager
async def serving(agent: Any) -> AsyncGenerator[tuple[RemoteApp, str], None]:
    app = accord.asgi(agent, token=TOKEN)
    async with hypercorn(app) as address:
        yield app, f"ws://{address}"


@pytest.mark.parametrize(("scheme", "version"), [("ws", 1), ("http", 2)])
async def test_running_turn_finishes_and_the_client_is_disconnected_after_it(
    scheme: str,
    version: ProtocolVersion,
) -> None:
    agent = Waiting()
    async with (
        serving(agent) as (app, url),
        accord.connect(_by(scheme, url), token=TOKEN, versions=(version,)) as client,
    ):
        session = await client.new_session("/")
        async with session.prompt("wait") as turn:
            await agent.started.wait()
            draining = asyncio.ensure_future(app.drain(30))
            await asyncio.sleep(0)
            assert not draining.done()
            agent.released.set()
            await turn.wait()
        assert turn.text == "finished"
        async with asyncio.timeout(10):  # not the 30 seconds
            await draining
        expected = "1001, the server is going away" if scheme == "ws" else None
        with pytest.raises((ConnectionLost, ConnectionClosed), match=expected):
            await client.new_session("/")


async def test_client_without_a_running_turn_is_disconnected_at_once() -> None:
    agent = Waiting()
    async with (
        serving(agent) as (app, url),
        accord.connect(url, token=TOKEN) as busy,
        ws_connect(f"{url}/acp", additional_headers=HEADERS) as idle,
    ):
        await _initialize(idle)
        session = await busy.new_session("/")
        async with session.prompt("wait") as turn:
            await agent.started.wait()
            draining = asyncio.ensure_future(app.drain(30))
            async with asyncio.timeout(10):
                await idle.wait_closed()
            assert (idle.close_code, idle.close_reason) == (1001, "the server is going away")
            assert not draining.done()
            agent.released.set()
            await turn.wait()
        await draining


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_new_turn_is_refused_while_another_finishes(scheme: str) -> None:
    agent = Waiting()
    async with (
        serving(agent) as (app, url),
        accord.connect(_by(scheme, url), token=TOKEN) as client,
    ):
        first = await client.new_session("/")
        second = await client.new_session("/")
        async with first.prompt("wait") as turn:
            await agent.started.wait()
            draining = asyncio.ensure_future(app.drain(30))
            await asyncio.sleep(0)
            with pytest.raises(RequestError, match="going away") as refused:
                async with second.prompt("another") as other:
                    await other.wait()
            assert refused.value.data == {"kind": "going_away"}
            agent.released.set()
            await turn.wait()
            assert turn.text == "finished"
        await draining


async def test_new_connection_is_refused_and_the_server_is_not_ready() -> None:
    agent = Waiting()
    async with serving(agent) as (app, url), accord.connect(url, token=TOKEN) as client:
        assert await _status(url, "/ready") == 200
        session = await client.new_session("/")
        async with session.prompt("wait") as turn:
            await agent.started.wait()
            draining = asyncio.ensure_future(app.drain(30))
            await asyncio.sleep(0)
            assert await _status(url, "/ready") == 503
            assert await _status(url, "/health") == 200
            with pytest.raises(InvalidStatus) as refused:
                await ws_connect(f"{url}/acp", additional_headers=HEADERS)
            assert refused.value.response.status_code == 503
            with pytest.raises(TransportError, match="status 503"):
                async with accord.connect(_by("http", url), token=TOKEN):
                    pass
            agent.released.set()
            await turn.wait()
        await draining


async def test_turn_that_does_not_end_is_ended_after_the_bound() -> None:
    agent = Waiting()
    async with serving(agent) as (app, url), accord.connect(url, token=TOKEN) as client:
        session = await client.new_session("/")
        async with session.prompt("wait") as turn:
            await agent.started.wait()
            async with asyncio.timeout(10):
                await app.drain(0.05)
            with pytest.raises(ConnectionLost, match="going away"):
                await turn.wait()


async def test_full_server_is_not_ready() -> None:
    limits = ConnectionLimits(connections=1)
    async with hypercorn(accord.asgi(Waiting, token=TOKEN, limits=limits)) as address:
        url = f"ws://{address}"
        assert await _status(url, "/ready") == 200
        async with accord.connect(url, token=TOKEN):
            assert await _status(url, "/ready") == 503
            assert await _status(url, "/health") == 200
        await _until_status(url, 200)


def _by(scheme: str, url: str) -> str:
    return url.replace("ws", scheme, 1)


async def _initialize(connection: Any) -> None:
    params = {"protocolVersion": 1, "clientCapabilities": {}}
    request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    await connection.send(json.dumps(request))
    assert json.loads(await connection.recv())["id"] == 0


async def _status(url: str, path: str) -> int:
    host, _, port = url.removeprefix("ws://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return int(answer.split()[1])


# The program.


@asynccontextmanager
async def program(
    folder: Path, *words: str
) -> AsyncGenerator[tuple[str, asyncio.subprocess.Process], None]:
    """Run `accord serve`; give its URL and the process."""
    (folder / "waiting.py").write_text(WAITING)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "accord", "serve", "--port", "0", *words),
        cwd=folder,
        env={**os.environ, "ACCORD_TOKEN": TOKEN.replace(" ", "-")},
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        line = (await process.stderr.readline()).decode()
        assert line.startswith("Serving on "), line + (await process.stderr.read()).decode()
        yield line.split()[2], process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


AGENTS = {"object": ["waiting:Waiting"], "process": ["--", sys.executable, "waiting.py"]}


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("agent", "version"), [(AGENTS["object"], 1), (AGENTS["process"], 2)], ids=AGENTS
)
@needs("accord_terminal")
async def test_sigterm_lets_the_running_turn_finish_and_exits_with_0(
    tmp_path: Path, agent: list[str], version: ProtocolVersion
) -> None:
    token = TOKEN.replace(" ", "-")
    async with (
        program(tmp_path, *agent) as (url, process),
        accord.connect(url, token=token, versions=(version,)) as client,
    ):
        session = await client.new_session(tmp_path)
        async with session.prompt("wait") as turn:
            await _until_started(turn)
            process.terminate()
            await _until_status(url, 503)
            await client.notify_extension("_go")
            await turn.wait()
        assert turn.text == "started and finished"
        assert await asyncio.wait_for(process.wait(), 20) == 0


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
@needs("accord_terminal")
async def test_second_signal_ends_the_server_at_once(tmp_path: Path, agent: list[str]) -> None:
    token = TOKEN.replace(" ", "-")
    async with (
        program(tmp_path, "--drain", "600", *agent) as (url, process),
        accord.connect(url, token=token) as client,
    ):
        session = await client.new_session(tmp_path)
        async with session.prompt("wait") as turn:
            await _until_started(turn)
            process.send_signal(signal.SIGINT)
            said = await _line(process, "Waiting up to ")
            assert said == (
                "Waiting up to 600 s for running turns (1)."
                " Press Ctrl-C again, or send a second signal, to end them now.\n"
            )
            await _until_status(url, 503)
            process.send_signal(signal.SIGINT)
            assert await asyncio.wait_for(process.wait(), 20) == 1
            with pytest.raises(ConnectionLost, match="going away"):
                await turn.wait()


async def _line(process: asyncio.subprocess.Process, start: str) -> str:
    """Return the next line of the errors that begins so."""
    assert process.stderr is not None
    async with asyncio.timeout(20):
        while line := (await process.stderr.readline()).decode():
            if line.startswith(start):
                return line
    raise AssertionError(f"No line begins with {start!r}")


async def _until_status(url: str, status: int) -> None:
    """Wait until `/ready` has this status; nothing tells when."""
    async with asyncio.timeout(20):
        while await _status(url.removesuffix("/acp"), "/ready") != status:
            await asyncio.sleep(POLL_S)


async def _until_started(turn: ClientTurn) -> None:
    async with asyncio.timeout(20):
        async for event in turn:
            if isinstance(event, Text):
                break
    assert turn.text == "started"
