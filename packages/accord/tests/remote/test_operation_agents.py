"""Agents that cannot start or that end, and connections that begin wrongly or are idle."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

import accord
from accord import Agent, Turn
from accord.errors import ConnectionLost, RequestError
from accord.remote.access import ConnectionLimits
from event_loop import poll_until
from remote.servers import hypercorn
from remote.test_websocket import TOKEN, raw, serving
from requirement import requirement


class Echo(Agent):
    async def prompt(self, turn: Turn) -> None:
        await turn.say(turn.text)


def request(method: str, request_id: int = 1, **params: Any) -> str:
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    return json.dumps(message)


INITIALIZE = request("initialize", protocolVersion=1, clientCapabilities={})


async def _answer(connection: ClientConnection) -> Any:
    return json.loads(await asyncio.wait_for(connection.recv(), 20))


async def _close_of(connection: ClientConnection) -> tuple[int | None, str | None]:
    async with asyncio.timeout(20):
        await connection.wait_closed()
    return connection.close_code, connection.close_reason


# Agents.


@requirement("R-WS-07", "R-WS-16")
async def test_agent_that_cannot_be_started_is_an_error_for_the_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    command = ["a-program-of-this-server", "--with-a-secret"]
    async with serving(command) as url, raw(url) as connection:
        await connection.send(INITIALIZE)
        error = (await _answer(connection))["error"]
        assert error == {
            "code": -32603,
            "message": "The agent could not be started",
            "data": {"kind": "agent"},
        }
        assert await _close_of(connection) == (1011, "the agent has ended")
    assert "a-program-of-this-server" in caplog.text


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_accord_names_the_error_of_an_agent_that_cannot_be_started(scheme: str) -> None:
    async with serving(["a-program-of-this-server"]) as url:
        with pytest.raises(RequestError, match="The agent could not be started") as failed:
            async with accord.connect(url.replace("ws", scheme, 1), token=TOKEN):
                pass
        assert failed.value.data == {"kind": "agent"}


async def test_agent_that_ends_at_its_start_is_an_error_for_the_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('a secret of the server')"]
    async with serving(command) as url, raw(url) as connection:
        await connection.send(INITIALIZE)
        answer = await _answer(connection)
        assert answer["error"]["message"] == "The agent could not be started"
        assert await _close_of(connection) == (1011, "the agent has ended")
    assert "exited with status 1: a secret of the server" in caplog.text


DYING = """
import os
from accord import Agent, Turn


class Dying(Agent):
    async def prompt(self, turn: Turn) -> None:
        os.write(2, os.environ.get("ACCORD_TOKEN", "no token").encode())
        os._exit(3)


Dying().run()
"""


@requirement("R-WS-16")
async def test_agent_that_dies_in_a_turn_closes_the_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "dying.py"
    program.write_text(DYING)
    monkeypatch.setenv("ACCORD_TOKEN", TOKEN)
    async with (
        serving([sys.executable, str(program)]) as url,
        accord.connect(url, token=TOKEN) as client,
    ):
        session = await client.new_session(tmp_path)
        async with session.prompt("die") as turn:
            with pytest.raises(ConnectionLost, match=r"code 1011.*\(the agent has ended\)"):
                await turn.wait()
    assert "exited with status 3: no token" in caplog.text  # the agent does not get the token


LIVING = """
import os, pathlib, sys
from accord import Agent

pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
Agent().run()
"""


@requirement("R-WS-04")
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
async def test_agent_ends_with_the_connection(tmp_path: Path) -> None:
    program, pid = tmp_path / "living.py", tmp_path / "pid"
    program.write_text(LIVING)
    app = accord.asgi([sys.executable, str(program), str(pid)], token=TOKEN)
    async with hypercorn(app) as address:
        async with raw(f"ws://{address}") as connection:
            await connection.send(INITIALIZE)
            assert "result" in await _answer(connection)
            assert app.connections == 1
            os.kill(int(pid.read_text()), 0)
        await poll_until(lambda: not app.connections)
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)


# The first message.


FIRST_MESSAGES = [
    request("session/new", cwd="/", mcpServers=[]),
    json.dumps({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "x"}}),
    json.dumps({"jsonrpc": "2.0", "id": None, "method": "initialize", "params": {}}),
]


@requirement("R-WS-02", "R-WS-07")
async def test_first_message_must_be_initialize() -> None:
    for first in FIRST_MESSAGES:
        async with serving(Echo) as url, raw(url) as connection:
            await connection.send(first)
            assert await _close_of(connection) == (1002, "the first message must be initialize"), (
                first
            )


@requirement("R-WS-02")
async def test_stray_response_before_initialize_is_ignored() -> None:
    async with serving(Echo) as url, raw(url) as connection:
        await connection.send(json.dumps({"jsonrpc": "2.0", "id": 7, "result": {}}))
        await connection.send(INITIALIZE)
        assert "result" in await _answer(connection)


@requirement("R-WS-06")
async def test_second_initialize_is_refused_and_the_connection_stays() -> None:
    async with serving(Echo) as url, raw(url) as connection:
        await connection.send(INITIALIZE)
        assert "result" in await _answer(connection)
        await connection.send(INITIALIZE)
        assert (await _answer(connection))["error"]["code"] == -32600
        await connection.send(request("session/new", 2, cwd="/", mcpServers=[]))
        assert "sessionId" in (await _answer(connection))["result"]


@requirement("R-WS-02")
@pytest.mark.parametrize("method", ["proxy/initialize", "_proxy/initialize"])
async def test_proxy_can_be_served_which_is_initialized_by_other_names(method: str) -> None:
    first = INITIALIZE.replace('"initialize"', f'"{method}"')
    async with serving(Echo) as url, raw(url) as connection:
        await connection.send(first)
        assert "error" in await _answer(connection), "the agent is not a proxy"
        await connection.send(INITIALIZE)
        assert "result" in await _answer(connection)
        await connection.send(first)
        error = (await _answer(connection))["error"]
        assert error == {"code": -32600, "message": "The connection is already initialized"}


# Idle connections.


class Slow(Agent):
    """Its turns take longer than the limit, without a message."""

    def __init__(self) -> None:
        super().__init__()
        self.released = asyncio.Event()

    async def prompt(self, turn: Turn) -> None:
        await self.released.wait()
        await turn.say("finished")


async def test_idle_connection_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    limits = ConnectionLimits(idle_s=0.3)
    async with serving(Echo, limits=limits) as url, raw(url) as connection:
        # On a loaded machine everything may take longer than the limit: nothing waits for the
        # answer, and the connection may be closed before the request.
        with suppress(ConnectionClosed):
            await connection.send(INITIALIZE)
        reason = "no message and no running turn for a long time"
        assert await _close_of(connection) == (1000, reason)
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


async def test_connection_with_a_running_turn_is_not_idle() -> None:
    agent = Slow()
    async with (
        serving(agent, limits=ConnectionLimits(idle_s=1.5)) as url,
        accord.connect(url, token=TOKEN) as client,
    ):
        session = await client.new_session("/")
        async with session.prompt("wait") as turn:
            asyncio.get_running_loop().call_later(3.2, agent.released.set)
            await turn.wait()
        assert turn.text == "finished"
