"""A transport that connects again: messages that the test sends as client and as agent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from accord.errors import ConnectionLost, TransportError
from accord.transports.base import Transport
from accord.transports.memory import pair
from accord.transports.reconnecting import ReconnectingTransport
from accord.transports.registry import ConnectionChange, Reconnect
from raw_peer import RawPeer
from requirement import requirement

loops = ("asyncio",)  # it uses nothing in which they differ
LOADS = {"agentCapabilities": {"loadSession": True}}
RESUMES = {"agentCapabilities": {"sessionCapabilities": {"resume": {}}, "loadSession": True}}


class Client(RawPeer):
    """What receives from the transport; it notes how the input ended."""

    error: Exception | None = None

    def eof_received(self, error: Exception | None) -> None:
        self.error = error
        self.ended.set()


class Agents:
    """What the transport connects to."""

    def __init__(self) -> None:
        self.refuses = False
        self.states: list[str] = []
        self.connected = asyncio.Event()
        self._agents: asyncio.Queue[RawPeer] = asyncio.Queue()

    async def __call__(self) -> Transport:
        if self.refuses:
            raise TransportError("the port is closed")
        here, there = pair()
        agent = RawPeer(there)
        await there.start(agent)
        self._agents.put_nowait(agent)
        return here

    async def next(self) -> RawPeer:
        return await self._agents.get()

    def on_change(self, change: ConnectionChange) -> None:
        self.states.append(change.state)
        if change.state == "connected":
            self.connected.set()


@asynccontextmanager
async def connected(
    version: int = 1, capabilities: Any = RESUMES, *, sessions: tuple[str, ...] = ("s1",)
) -> AsyncGenerator[tuple[Client, Agents, RawPeer]]:
    """Give a client with open sessions, its agents, and the first of them."""
    agents = Agents()
    settings = Reconnect(attempts=3, wait_s=0, on_change=agents.on_change)
    transport = ReconnectingTransport(agents, settings)
    client = Client(transport)
    async with asyncio.timeout(20):
        await transport.start(client)
        try:
            agent = await agents.next()
            client.ask(0, "initialize", {"protocolVersion": version, "mine": 1})
            await initialize(agent, version, capabilities)
            assert (await client.get())["id"] == 0
            for number, session in enumerate(sessions):
                client.ask(f"n{number}", "session/new", {"cwd": "/w", "mcpServers": []})
                agent.answer((await agent.get())["id"], {"sessionId": session})
                await client.get()
            yield client, agents, agent
        finally:
            await transport.aclose()


async def initialize(agent: RawPeer, version: int = 1, capabilities: Any = RESUMES) -> None:
    request = await agent.get()
    assert request["method"] == "initialize"
    assert request["params"] == {"protocolVersion": version, "mine": 1}
    agent.answer(request["id"], {"protocolVersion": version, **capabilities})


def update(session: str, kind: str, **fields: Any) -> Any:
    return {"sessionId": session, "update": {"sessionUpdate": kind, **fields}}


@requirement("R-WS-17")
@pytest.mark.parametrize(
    ("version", "capabilities", "method"),
    [
        (1, RESUMES, "session/resume"),
        (1, LOADS, "session/load"),
        (2, {"capabilities": {"session": {}}}, "session/resume"),
    ],
)
async def test_session_is_opened_again_and_its_replay_is_dropped(
    version: int, capabilities: Any, method: str
) -> None:
    async with connected(version, capabilities) as (client, agents, agent):
        await agent.hang_up()
        again = await agents.next()
        await initialize(again, version, capabilities)
        opening = await again.get()
        assert opening["method"] == method
        assert opening["params"] == {"cwd": "/w", "mcpServers": [], "sessionId": "s1"}
        again.tell("session/update", update("s1", "agent_message_chunk", content={}))
        again.tell("session/update", update("s1", "current_mode_update", currentModeId="m"))
        again.answer(opening["id"], {})
        again.tell("session/update", update("s1", "agent_message_chunk", content={"n": 1}))
        assert (await client.get())["params"]["update"]["sessionUpdate"] == "current_mode_update"
        assert (await client.get())["params"]["update"]["content"] == {"n": 1}
        assert agents.states == ["reconnecting", "connected"]


@pytest.fixture(
    params=[("authenticate", "logout"), ("auth/login", "auth/logout")], ids=["v1", "v2"]
)
def login(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The methods to log in and out."""
    return request.param


async def pass_on(client: Client, agent: RawPeer, method: str, params: Any) -> None:
    """Send a request of the client, which the agent accepts."""
    client.ask(method, method, params)
    agent.answer((await agent.get())["id"], {})
    await client.get()


def refuse(agent: RawPeer, message: Any, code: int = -32000) -> None:
    agent.send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": "no"}})


@requirement("R-AUTH-12")
async def test_login_is_repeated_for_sessions_that_require_it(login: tuple[str, str]) -> None:
    async with connected(sessions=("s1", "s2")) as (client, agents, agent):
        await pass_on(client, agent, login[0], {"methodId": "key"})
        await agent.hang_up()
        again = await agents.next()
        await initialize(again)
        refuse(again, await again.get())
        message = await again.get()
        assert (message["method"], message["params"]) == (login[0], {"methodId": "key"})
        again.answer(message["id"], {})
        for session in ("s1", "s2"):
            opening = await again.get()
            assert opening["params"]["sessionId"] == session
            again.answer(opening["id"], {})
        await agents.connected.wait()


@requirement("R-AUTH-12")
async def test_login_is_sent_once_although_it_is_refused(login: tuple[str, str]) -> None:
    async with connected(sessions=("s1", "s2")) as (client, agents, agent):
        await pass_on(client, agent, login[0], {"methodId": "key"})
        await agent.hang_up()
        again = await agents.next()
        await initialize(again)
        seen: list[str] = []
        for _ in range(3):
            message = await again.get()
            seen.append(message["method"])
            refuse(again, message)
        assert seen == ["session/resume", login[0], "session/resume"]
        await agents.connected.wait()


@pytest.mark.parametrize("logged_out", [False, True])
async def test_no_login_is_sent_without_need(login: tuple[str, str], logged_out: bool) -> None:
    async with connected(sessions=("s1", "s2")) as (client, agents, agent):
        await pass_on(client, agent, login[0], {"methodId": "key"})
        if logged_out:
            await pass_on(client, agent, login[1], {})
        await agent.hang_up()
        again = await agents.next()
        await initialize(again)
        for _ in range(2):
            message = await again.get()
            assert message["method"] == "session/resume"
            refuse(again, message, -32000 if logged_out else -32002)
        await agents.connected.wait()


@requirement("R-WS-17")
async def test_requests_in_progress_fail_and_new_ones_wait() -> None:
    async with connected() as (client, agents, agent):
        client.ask("p", "session/prompt", {"sessionId": "s1", "prompt": []})
        await agent.get()
        await agent.hang_up()
        failed = await client.get()
        assert failed["id"] == "p"
        assert "the request was not sent again" in failed["error"]["message"]
        client.ask("q", "session/prompt", {"sessionId": "s1", "prompt": []})
        assert client.transport.congested
        again = await agents.next()
        await initialize(again)
        again.answer((await again.get())["id"], {})
        assert (await again.get())["id"] == "q"
        again.answer("q", {"stopReason": "end_turn"})
        assert await client.get() == {
            "jsonrpc": "2.0",
            "id": "q",
            "result": {"stopReason": "end_turn"},
        }


async def test_requests_of_the_agent_are_cancelled_and_renamed() -> None:
    async with connected() as (client, agents, agent):
        agent.ask(1, "session/request_permission", {"sessionId": "s1"})
        assert (await client.get())["id"] == 1
        await agent.hang_up()
        cancelled = await client.get()
        assert (cancelled["method"], cancelled["params"]) == ("$/cancel_request", {"requestId": 1})
        again = await agents.next()
        await initialize(again)
        again.answer((await again.get())["id"], {})
        again.ask(1, "session/request_permission", {"sessionId": "s1", "n": 2})
        asked = await client.get()
        assert asked["id"] != 1
        assert asked["params"] == {"sessionId": "s1", "n": 2}
        client.answer(1, {"of": "the request that was cancelled"})
        client.answer(asked["id"], {"of": "the new one"})
        answer = await again.get()
        assert (answer["id"], answer["result"]) == (1, {"of": "the new one"})
        again.ask("x", "fs/read_text_file", {"sessionId": "s1"})
        asked = await client.get()
        again.tell("$/cancel_request", {"requestId": "x"})
        assert (await client.get())["params"] == {"requestId": asked["id"]}
        client.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": 1, "message": "m"}})
        assert (await again.get())["error"] == {"code": 1, "message": "m"}


@pytest.mark.parametrize("reported", [True, False])
async def test_running_turn_of_version_2_ends_unless_its_state_is_reported(reported: bool) -> None:
    capabilities = {"capabilities": {"session": {}}}
    async with connected(2, capabilities) as (client, agents, agent):
        agent.tell("session/update", update("s1", "state_update", state="running"))
        await client.get()
        await agent.hang_up()
        again = await agents.next()
        await initialize(again, 2, capabilities)
        opening = await again.get()
        if reported:
            again.tell("session/update", update("s1", "state_update", state="running"))
        again.answer(opening["id"], {})
        told = (await client.get())["params"]["update"]
        assert told["state"] == ("running" if reported else "idle")
        assert told.get("stopReason") == (None if reported else "error")


async def test_closed_session_is_not_opened_again() -> None:
    async with connected(sessions=("s1", "s2")) as (client, agents, agent):
        client.ask("c", "session/close", {"sessionId": "s1"})
        agent.answer((await agent.get())["id"], {})
        await client.get()
        await agent.hang_up()
        again = await agents.next()
        await initialize(again)
        opening = await again.get()
        assert opening["params"]["sessionId"] == "s2"
        again.send({"jsonrpc": "2.0", "id": opening["id"], "error": {"code": 1, "message": "m"}})
        await agents.connected.wait()  # the agent refuses later requests itself


@requirement("R-WS-17")
async def test_input_ends_when_the_attempts_are_used_up() -> None:
    async with connected() as (client, agents, agent):
        agents.refuses = True
        await agent.hang_up()
        await client.ended.wait()
        assert isinstance(client.error, ConnectionLost)
        assert "in 3 attempts, the last one failed: the port is closed" in str(client.error)
        assert agents.states == [*["reconnecting"] * 3, "lost"]


async def test_connection_that_is_lost_while_sessions_are_opened_is_one_attempt() -> None:
    async with connected() as (client, agents, agent):
        await agent.hang_up()
        second = await agents.next()
        await initialize(second)
        await second.get()
        await second.hang_up()
        third = await agents.next()
        await initialize(third)
        third.answer((await third.get())["id"], {})
        await agents.connected.wait()
        client.ask("x", "_x", {})
        assert (await third.get())["method"] == "_x"


async def test_loss_before_initialize_ends_the_input() -> None:
    agents = Agents()
    transport = ReconnectingTransport(agents, Reconnect(wait_s=0))
    client = Client(transport)
    await transport.start(client)
    await (await agents.next()).hang_up()
    async with asyncio.timeout(5):
        await client.ended.wait()
    await transport.aclose()


async def test_closing_during_the_wait_takes_no_time() -> None:
    agents = Agents()
    transport = ReconnectingTransport(agents, Reconnect(wait_s=3600, max_wait_s=3600))
    client = Client(transport)
    await transport.start(client)
    agent = await agents.next()
    client.ask(0, "initialize", {"protocolVersion": 1, "mine": 1})
    await initialize(agent)
    await client.get()
    await agent.hang_up()
    async with asyncio.timeout(5):
        while not transport.congested:
            await asyncio.sleep(0)
        await transport.aclose()


async def test_failed_first_connection_raises() -> None:
    agents = Agents()
    agents.refuses = True
    with pytest.raises(TransportError, match="the port is closed"):
        await ReconnectingTransport(agents, Reconnect()).start(Client(pair()[0]))


async def test_frames_are_passed_on_as_they_are() -> None:
    async with connected() as (client, _agents, agent):
        frame = b'{ "method":"session/update", "params":{"sessionId":"s1"} ,"jsonrpc":"2.0"}'
        seen: list[bytes] = []
        receive = client.frames_received

        def received(frames: Any) -> None:
            seen.extend(bytes(each) for each in frames)
            receive(frames)

        client.frames_received = received
        agent.send(frame)
        await client.get()
        assert seen == [frame]
        assert json.loads(frame)["params"] == {"sessionId": "s1"}
