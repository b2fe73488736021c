"""A client that reconnects, and agents whose messages the test sends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

import accord
from accord import ConnectionChange, Reconnect
from accord.errors import (
    ConnectionClosed,
    ConnectionLost,
    TransportError,
    TurnInterrupted,
)
from accord.transports.base import Frame, Transport
from accord.transports.memory import pair
from accord.transports.registry import Waits
from client.wire_agents import BOTH, update
from raw_peer import QUICK, RawPeer
from requirement import requirement
from versions import only

LOAD = {1: "session/load", 2: "session/resume"}


class Agent(RawPeer):
    """An agent on one connection; it answers `initialize`."""

    def __init__(self, transport: Transport, version: int, capabilities: dict[str, Any]) -> None:
        super().__init__(transport)
        self.result: dict[str, Any] = {"protocolVersion": version}
        info = {"name": "raw", "version": "1"}
        if version == 1:
            self.result |= {"agentInfo": info, "agentCapabilities": capabilities}
        else:
            self.result |= {"info": info, "capabilities": {"session": capabilities}}

    def frames_received(self, frames: Sequence[Frame]) -> None:
        others: list[Frame] = []
        for frame in frames:
            message = json.loads(frame)
            if message.get("method") == "initialize":
                self.answer(message["id"], self.result)
            else:
                others.append(frame)
        super().frames_received(others)

    def refuse(
        self, request_id: Any, code: int = -32000, message: str = "Authentication required"
    ) -> None:
        error = {"code": code, "message": message}
        self.send({"jsonrpc": "2.0", "id": request_id, "error": error})

    async def expect(self, method: str) -> Any:
        """Return the id of the next message, which has this method."""
        message = await self.get()
        assert message["method"] == method, message
        return message.get("id")

    def say(self, text: str, message_id: str = "m1", **more: Any) -> None:
        content = {"type": "text", "text": text}
        self.update(sessionUpdate="agent_message_chunk", content=content, messageId=message_id)

    def prompted(self, text: str, message_id: str = "u1") -> None:
        content = {"type": "text", "text": text}
        self.update(sessionUpdate="user_message_chunk", content=content, messageId=message_id)

    def state(self, name: str, **more: Any) -> None:
        self.update(sessionUpdate="state_update", state=name, **more)

    def update(self, **fields: Any) -> None:
        self.tell(*update("s1", **fields))


class Agents:
    """What a client connects to: each connection is another agent."""

    def __init__(self, version: int, capabilities: dict[str, Any]) -> None:
        self.version = version
        self.capabilities = capabilities
        self.auth_methods: list[Any] = []
        self.refuses = False
        self.changes: list[ConnectionChange] = []
        self._changed = asyncio.Event()
        self._connected: asyncio.Queue[Agent] = asyncio.Queue()

    async def __call__(self) -> Transport:
        if self.refuses:
            raise TransportError("the port is closed")
        here, there = pair()
        agent = Agent(there, self.version, self.capabilities)
        agent.result["authMethods"] = self.auth_methods
        await there.start(agent)
        self._connected.put_nowait(agent)
        return here

    async def next(self) -> Agent:
        """Return the agent of the next connection."""
        return await self._connected.get()

    def on_change(self, change: ConnectionChange) -> None:
        self.changes.append(change)
        self._changed.set()

    async def until(self, *states: str) -> None:
        """Wait until the connection has been in these states."""
        while self.states != list(states):
            self._changed.clear()
            await self._changed.wait()

    @property
    def states(self) -> list[str]:
        return [change.state for change in self.changes]


@asynccontextmanager
async def connected(
    version: int,
    *,
    attempts: int = 3,
    capabilities: dict[str, Any] | None = None,
    auth_methods: Sequence[Any] = (),
    **options: Any,
) -> AsyncGenerator[tuple[accord.ConnectedAgent, Agents, Agent]]:
    """Connect a client that reconnects; give it, its agents, and the first of them."""
    if capabilities is None:
        capabilities = {"loadSession": True} if version == 1 else {}
    agents = Agents(version, capabilities)
    agents.auth_methods = list(auth_methods)
    settings = Reconnect(attempts=attempts, wait_s=0, on_change=agents.on_change)
    options = {"reconnect": settings, "versions": only(version), "limits": QUICK} | options
    async with asyncio.timeout(30), accord.connect(agents, **options) as client:
        yield client, agents, await agents.next()


async def new_session(client: accord.ConnectedAgent, agent: Agent, name: str = "s1") -> Any:
    opening = asyncio.create_task(client.new_session("/"))
    agent.answer(await agent.expect("session/new"), {"sessionId": name})
    return await opening


async def begin_turn(session: Any, agent: Agent) -> Any:
    """Enter a turn, which a version 2 agent has accepted; return it."""
    turn = session.prompt("hello")
    await turn.__aenter__()
    prompt = await agent.expect("session/prompt")
    if session._adapter.version == 2:
        agent.prompted("hello")
        agent.state("running")
        agent.answer(prompt, {"messageId": "u1"})
    return turn


async def events_of(turn: Any) -> tuple[list[Any], Exception | None]:
    """Return the events of a turn, and the error that ended it."""
    events: list[Any] = []
    try:
        async for event in turn:
            events.append(event)  # noqa: PERF401  # an error can end it
    except accord.AccordError as error:
        return events, error
    return events, None


async def reopen(agents: Agents) -> tuple[Agent, Any]:
    """Return the agent of the next connection, and the id of the request to open s1."""
    agent = await agents.next()
    return agent, await agent.expect(LOAD[agents.version])


async def until_text(session: Any, text: str) -> None:
    async with asyncio.timeout(10):
        while session.transcript.text != text:
            await asyncio.sleep(0)


@requirement("R-WS-17")
@BOTH
async def test_missed_events_arrive_between_turns(version: int) -> None:
    async with connected(version) as (client, agents, agent):
        session = await new_session(client, agent)
        agent.say("Hel")
        await until_text(session, "Hel")
        async with session.events() as events:
            await agent.hang_up()
            again, load = await reopen(agents)
            again.say("Hello")
            again.say(", you", "m2")
            again.answer(load, {})
            assert await anext(events) == accord.Text("lo", "m1")
            assert await anext(events) == accord.Text(", you", "m2")
        assert session.transcript.text == "Hello\n\n, you"


@requirement("R-WS-17")
@BOTH
async def test_live_updates_after_the_replay_follow_it(version: int) -> None:
    async with connected(version) as (client, agents, agent):
        session = await new_session(client, agent)
        agent.say("a")
        await until_text(session, "a")
        await agent.hang_up()
        again, load = await reopen(agents)
        again.say("ab")
        again.answer(load, {})
        again.say("c")
        await until_text(session, "abc")


@BOTH
async def test_requests_in_progress_fail_and_are_not_sent_again(version: int) -> None:
    async with connected(version) as (client, agents, agent):
        asking = asyncio.create_task(client.call_extension("_x", {}))
        await agent.expect("_x")
        await agent.hang_up()
        with pytest.raises(ConnectionLost):
            await asking
        again = await agents.next()
        opening = asyncio.create_task(client.new_session("/"))
        again.answer(await again.expect("session/new"), {"sessionId": "s1"})  # not `_x`
        await opening


@BOTH
async def test_new_requests_wait_until_the_sessions_are_open(version: int) -> None:
    async with connected(version) as (client, agents, agent):
        await new_session(client, agent)
        await agent.hang_up()
        await agents.until("reconnecting")
        asking = asyncio.create_task(client.call_extension("_x", {}))
        again, load = await reopen(agents)
        again.answer(load, {})
        again.answer(await again.expect("_x"), 1)
        assert await asking == 1


@requirement("R-WS-17")
async def test_v1_turn_ends_once_what_was_missed_has_arrived() -> None:
    async with connected(1) as (client, agents, agent):
        session = await new_session(client, agent)
        turn = await begin_turn(session, agent)
        agent.say("Hel")
        assert await anext(aiter(turn)) == accord.UserText("hello", "prompt 1")
        await until_text(session, "Hel")
        await agent.hang_up()
        again, load = await reopen(agents)
        again.prompted("hello")
        again.say("Hello")
        again.answer(load, {})
        seen, error = await events_of(turn)
        assert isinstance(error, TurnInterrupted)
        await turn.__aexit__(None, None, None)
        assert [event.text for event in seen if isinstance(event, accord.Text)] == ["Hel", "lo"]
        assert error.in_history is True
        assert error.agent_works is None
        assert "the agent may still work on it" in str(error)
        assert session.transcript.state == accord.StateChanged(state="idle", stop_reason="error")
        assert [m.role for m in session.transcript.messages] == ["user", "agent"]
        # The session can be used again.
        async with session.prompt("more") as turn:
            again.answer(await again.expect("session/prompt"), {"stopReason": "end_turn"})
            assert await turn.wait() == "end_turn"


@BOTH
async def test_prompt_that_the_agent_has_not_stored_is_reported(version: int) -> None:
    async with connected(version) as (client, agents, agent):
        session = await new_session(client, agent)
        async with session.events():
            agent.prompted("first", "u0")
            agent.say("a", "m0")
            await until_text(session, "a")
        turn = session.prompt("hello")
        await turn.__aenter__()
        await agent.expect("session/prompt")
        await agent.hang_up()
        again, load = await reopen(agents)
        again.prompted("first", "u0")
        again.say("a", "m0")
        again.answer(load, {})
        with pytest.raises(TurnInterrupted, match="does not contain the prompt") as raised:
            await turn.wait()
        await turn.__aexit__(None, None, None)
        assert raised.value.in_history is False


@requirement("R-WS-17")
async def test_v2_turn_continues_if_the_agent_still_works() -> None:
    async with connected(2) as (client, agents, agent):
        session = await new_session(client, agent)
        turn = await begin_turn(session, agent)
        agent.say("a")
        await until_text(session, "a")
        await agent.hang_up()
        again, load = await reopen(agents)
        again.prompted("hello")
        again.say("ab")
        again.state("running")
        again.answer(load, {})
        again.say("c")
        again.state("idle", stopReason="end_turn")
        texts = [event.text async for event in turn if isinstance(event, accord.Text)]
        await turn.__aexit__(None, None, None)
        assert texts == ["a", "b", "c"]
        assert turn.stop_reason == "end_turn"


async def test_v2_turn_that_ended_during_the_loss_ends_in_order() -> None:
    async with connected(2) as (client, agents, agent):
        session = await new_session(client, agent)
        turn = await begin_turn(session, agent)
        agent.say("a")
        await until_text(session, "a")
        await agent.hang_up()
        again, load = await reopen(agents)
        again.prompted("hello")
        again.say("ab")
        again.state("idle", stopReason="refusal")
        again.answer(load, {})
        assert await turn.wait() == "refusal"
        await turn.__aexit__(None, None, None)
        assert turn.text == "ab"


@pytest.mark.parametrize(
    ("state", "works"), [({"state": "idle"}, False), ({"state": "unknown"}, None), (None, None)]
)
async def test_v2_turn_ends_if_the_agent_no_longer_works_on_it(
    state: Any, works: bool | None
) -> None:
    async with connected(2) as (client, agents, agent):
        session = await new_session(client, agent)
        turn = await begin_turn(session, agent)
        await agent.hang_up()
        again, load = await reopen(agents)
        again.prompted("hello")
        if state is not None:
            again.state(state["state"])
        again.answer(load, {})
        with pytest.raises(TurnInterrupted) as raised:
            await turn.wait()
        await turn.__aexit__(None, None, None)
        assert raised.value.in_history is True
        assert raised.value.agent_works is works
        if state is not None:
            assert session.transcript.state.state == state["state"]


async def test_v2_agent_that_does_not_replay_the_state_is_asked_for_it() -> None:
    async with connected(2, capabilities={"status": {}}) as (client, agents, agent):
        session = await new_session(client, agent)
        turn = await begin_turn(session, agent)
        await agent.hang_up()
        again, load = await reopen(agents)
        again.prompted("hello")
        again.answer(load, {})
        status = await again.expect("session/status")
        again.answer(status, {"status": "open", "state": {"state": "running"}})
        again.state("idle", stopReason="end_turn")
        assert await turn.wait() == "end_turn"
        await turn.__aexit__(None, None, None)


async def test_v1_agent_without_load_is_resumed() -> None:
    capabilities = {"sessionCapabilities": {"resume": {}}}
    async with connected(1, capabilities=capabilities) as (client, agents, agent):
        session = await new_session(client, agent)
        agent.say("a")
        await until_text(session, "a")
        await agent.hang_up()
        again = await agents.next()
        again.answer(await again.expect("session/resume"), {})
        again.say("b")
        await until_text(session, "ab")


async def test_session_of_an_agent_that_cannot_open_it_again_ends() -> None:
    async with connected(1, capabilities={}) as (client, agents, agent):
        session = await new_session(client, agent)
        turn = await begin_turn(session, agent)
        await agent.hang_up()
        await agents.next()
        with pytest.raises(ConnectionLost, match="the session could not be opened again: session/"):
            await turn.wait()
        await turn.__aexit__(None, None, None)
        with pytest.raises(ConnectionLost, match="could not be opened again"):
            async with session.prompt("more"):
                pass


@BOTH
async def test_refused_session_ends_and_the_others_continue(version: int) -> None:
    async with connected(version) as (client, agents, agent):
        first = await new_session(client, agent)
        second = await new_session(client, agent, "s2")
        await agent.hang_up()
        again = await agents.next()
        for name in ("s1", "s2"):
            message = await again.get()
            assert message["params"]["sessionId"] == name
            if name == "s1":
                error = {"code": -32002, "message": "Unknown session"}
                again.send({"jsonrpc": "2.0", "id": message["id"], "error": error})
            else:
                again.answer(message["id"], {})
        turn = second.prompt("hello")
        async with turn:
            prompt = await again.expect("session/prompt")
            again.answer(prompt, {"stopReason": "end_turn", "messageId": "u1"})
            if version == 2:
                for change in ({"state": "running"}, {"state": "idle", "stopReason": "end_turn"}):
                    again.tell(*update("s2", sessionUpdate="state_update", **change))
            await turn.wait()
        with pytest.raises(ConnectionLost, match="Unknown session"):
            async with first.prompt("hello"):
                pass


@BOTH
async def test_closed_session_is_not_opened_again(version: int) -> None:
    capabilities: Any = {"loadSession": True, "sessionCapabilities": {"close": {}}}
    if version == 2:
        capabilities = {}
    async with connected(version, capabilities=capabilities) as (client, agents, agent):
        session = await new_session(client, agent)
        closing = asyncio.create_task(session.close())
        agent.answer(await agent.expect("session/close"), {})
        await closing
        await agent.hang_up()
        again = await agents.next()
        asking = asyncio.create_task(client.call_extension("_x", {}))
        again.answer(await again.expect("_x"), 1)
        await asking


@BOTH
async def test_session_that_is_loaded_during_the_loss_is_loaded_once(version: int) -> None:
    async with connected(version) as (client, agents, agent):
        await new_session(client, agent)
        await agent.hang_up()
        await agents.until("reconnecting")
        loading = asyncio.create_task(client.load_session("s1", "/"))
        again, load = await reopen(agents)
        again.say("a")
        again.answer(load, {})
        session = await loading
        assert session.transcript.text == "a"


@requirement("R-WS-17")
@BOTH
async def test_everything_ends_when_the_attempts_are_used_up(version: int) -> None:
    async with connected(version) as (client, agents, agent):
        session = await new_session(client, agent)
        turn = await begin_turn(session, agent)
        agents.refuses = True
        await agent.hang_up()
        with pytest.raises(ConnectionLost, match=r"in 3 attempts, .* the port is closed") as raised:
            await turn.wait()
        await turn.__aexit__(None, None, None)
        assert not isinstance(raised.value, TurnInterrupted)
        with pytest.raises(ConnectionLost, match="in 3 attempts"):
            await client.call_extension("_x", {})
        with pytest.raises(ConnectionLost, match="in 3 attempts"):
            async with session.prompt("more"):
                pass
        await agents.until(*["reconnecting"] * 3, "lost")
        assert [change.attempt for change in agents.changes] == [1, 2, 3, 0]
        assert isinstance(agents.changes[1].error, TransportError)


@BOTH
async def test_connection_that_is_lost_while_sessions_are_opened_is_one_attempt(
    version: int,
) -> None:
    async with connected(version) as (client, agents, agent):
        session = await new_session(client, agent)
        agent.say("a")
        await until_text(session, "a")
        await agent.hang_up()
        again, _ = await reopen(agents)
        again.say("abc")
        await again.hang_up()
        last, load = await reopen(agents)
        last.say("ab")
        last.answer(load, {})
        await until_text(session, "ab")
        await agents.until("reconnecting", "reconnecting", "connected")


async def test_attempts_are_counted_from_each_loss() -> None:
    async with connected(1, attempts=2) as (client, agents, agent):
        session = await new_session(client, agent)
        for number in range(5):
            await agent.hang_up()
            agent, load = await reopen(agents)
            agent.say("a" * (number + 1))
            agent.answer(load, {})
            await until_text(session, "a" * (number + 1))


@requirement("R-WS-17")
@BOTH
async def test_leaving_the_block_during_the_wait_takes_no_time(version: int) -> None:
    waiting = asyncio.Event()

    def on_change(_change: ConnectionChange) -> None:
        waiting.set()

    settings = Reconnect(wait_s=3600, max_wait_s=3600, on_change=on_change)
    async with asyncio.timeout(5):
        async with connected(version, reconnect=settings) as (client, _agents, agent):
            await agent.hang_up()
            await waiting.wait()
            asking = asyncio.create_task(client.call_extension("_x", {}))
            await asyncio.sleep(0)
        with pytest.raises(ConnectionClosed):
            await asking


def test_waits_double_up_to_a_bound_with_jitter() -> None:
    settings = Reconnect()
    waits = [[settings.wait_before(attempt) for _ in range(200)] for attempt in range(1, 11)]
    for attempt, some in enumerate(waits):
        longest = min(0.5 * 2**attempt, 30)
        assert all(longest / 2 <= wait <= longest for wait in some)
        assert len(set(some)) > 100
    assert settings.wait_before(10_000) <= 30


def test_waits_start_again_only_after_a_stable_connection() -> None:
    now = 0.0
    waits = Waits(Reconnect(wait_s=1, max_wait_s=100), lambda: now)
    waits.lost()
    assert [waits.next() > longest / 2 for longest in (1, 2, 4)] == [True] * 3
    waits.connected()
    now += 0.9
    waits.lost()
    assert waits.next() >= 4
    waits.connected()
    now += 2.0
    waits.lost()
    assert waits.next() <= 1


async def test_version_is_that_of_the_first_connection() -> None:
    async with connected(1) as (client, agents, agent):
        agents.version = 2
        await agent.hang_up()
        await agents.next()
        with pytest.raises(ConnectionLost, match="the agent cannot be used again"):
            await client.call_extension("_x", {})


async def test_failing_callback_does_not_stop_reconnecting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_change: ConnectionChange) -> None:
        raise ValueError("a defect of the caller")

    async with connected(1, reconnect=Reconnect(wait_s=0, on_change=fail)) as (client, agents, one):
        session = await new_session(client, one)
        await one.hang_up()
        again, load = await reopen(agents)
        again.answer(load, {})
        again.say("a")
        await until_text(session, "a")
    assert "a defect of the caller" in caplog.text


async def test_transport_cannot_be_opened_again() -> None:
    here, _there = pair()
    with pytest.raises(TypeError, match="expected a URL or a function, got a transport"):
        async with accord.connect(here, reconnect=True):
            pass


async def test_subagent_of_a_session_continues() -> None:
    async with connected(1, unstable=True) as (client, agents, agent):
        session = await new_session(client, agent)
        agent.update(sessionUpdate="subagent_update", sessionId="c1", title="Helper")
        content = {"type": "text", "text": "a"}
        chunk = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": content}
        agent.tell(*update("c1", **chunk))
        agent.say("x")
        await until_text(session, "x")
        child = session.subagent("c1")
        await agent.hang_up()
        again, load = await reopen(agents)
        again.update(sessionUpdate="subagent_update", sessionId="c1", title="Helper")
        again.tell(*update("c1", **chunk | {"content": content | {"text": "ab"}}))
        again.say("x")
        again.answer(load, {})
        await until_text(child, "ab")


@BOTH
async def test_slow_reader_keeps_its_events_across_the_loss(version: int) -> None:
    async with connected(version) as (client, agents, agent):
        session = await new_session(client, agent)
        async with session.events() as events:
            for _ in range(1000):
                agent.say("a")
            await until_text(session, "a" * 1000)
            await agent.hang_up()
            again, load = await reopen(agents)
            again.say("a" * 1001)
            again.answer(load, {})
            for _ in range(100):  # more than the first bound of a backlog
                again.say("b")
            got = ""
            while not got.endswith("b" * 100):
                event = await anext(events)
                assert isinstance(event, accord.Text)
                got += event.text
            assert got == "a" * 1001 + "b" * 100


@BOTH
async def test_many_sessions_are_opened_again_some_at_a_time(version: int) -> None:
    names = [f"s{number}" for number in range(20)]
    async with connected(version) as (client, agents, agent):
        for name in names:
            await new_session(client, agent, name)
        await agent.hang_up()
        again = await agents.next()
        opening: list[Any] = []
        while len(opening) < 20:
            opening.append(await again.get())
            if len(opening) == 8:
                assert again.inbox.empty()
            if len(opening) >= 8:
                again.answer(opening[len(opening) - 8]["id"], {})
        for message in opening[13:]:
            again.answer(message["id"], {})
        assert [message["params"]["sessionId"] for message in opening] == names
        await agents.until("reconnecting", "connected")


LOGIN = {1: "authenticate", 2: "auth/login"}
LOGOUT = {1: "logout", 2: "auth/logout"}
METHODS = {
    1: [{"id": "key", "name": "Key"}],
    2: [{"methodId": "key", "name": "Key", "type": "agent"}],
}


@asynccontextmanager
async def logged_in(
    version: int, **options: Any
) -> AsyncGenerator[tuple[accord.ConnectedAgent, Agents, Agent]]:
    """Connect a client that has logged in on the first connection."""
    capabilities: dict[str, Any] = {}
    if version == 1:
        capabilities = {"loadSession": True, "auth": {"logout": {}}}
    options = {"capabilities": capabilities, "auth_methods": METHODS[version]} | options
    async with connected(version, **options) as (client, agents, first):
        login = asyncio.create_task(client.authenticate("key"))
        first.answer(await first.expect(LOGIN[version]), {})
        await login
        yield client, agents, first


@BOTH
@requirement("R-AUTH-12")
async def test_login_is_repeated_for_the_sessions_of_a_new_connection(version: int) -> None:
    async with logged_in(version) as (client, agents, first):
        await new_session(client, first)
        await first.hang_up()
        second = await agents.next()
        second.refuse(await second.expect(LOAD[version]))
        message = await second.get()
        assert message["method"] == LOGIN[version]
        assert message["params"]["methodId"] == "key"
        second.answer(message["id"], {})
        second.answer(await second.expect(LOAD[version]), {})
        await agents.until("reconnecting", "connected")


@BOTH
@requirement("R-AUTH-12")
async def test_login_is_repeated_once_for_the_first_request_that_needs_it(version: int) -> None:
    async with logged_in(version) as (client, agents, first):
        await first.hang_up()
        second = await agents.next()
        await agents.until("reconnecting", "connected")
        opening = [asyncio.create_task(client.new_session("/")) for _ in range(2)]
        for _ in opening:
            second.refuse(await second.expect("session/new"))
        second.answer(await second.expect(LOGIN[version]), {})
        second.answer(await second.expect("session/new"), {"sessionId": "s1"})
        second.refuse(await second.expect("session/new"))
        done = await asyncio.gather(*opening, return_exceptions=True)
        assert [isinstance(each, accord.AuthRequired) for each in done] == [False, True]


@BOTH
async def test_login_is_not_repeated_after_a_logout_or_on_its_own_connection(version: int) -> None:
    async with logged_in(version) as (client, agents, first):
        opening = asyncio.create_task(client.new_session("/"))
        first.refuse(await first.expect("session/new"))
        with pytest.raises(accord.AuthRequired):
            await opening
        leaving = asyncio.create_task(client.logout())
        first.answer(await first.expect(LOGOUT[version]), {})
        await leaving
        await first.hang_up()
        second = await agents.next()
        await agents.until("reconnecting", "connected")
        opening = asyncio.create_task(client.new_session("/"))
        second.refuse(await second.expect("session/new"))
        with pytest.raises(accord.AuthRequired):
            await opening


@BOTH
async def test_login_that_is_refused_later_ends_the_sessions_that_need_it(version: int) -> None:
    async with logged_in(version) as (client, agents, first):
        session = await new_session(client, first)
        turn = await begin_turn(session, first)
        await first.hang_up()
        second = await agents.next()
        second.refuse(await second.expect(LOAD[version]))
        second.refuse(await second.expect(LOGIN[version]), -32602, "the key is no longer valid")
        await agents.until("reconnecting", "connected")
        with pytest.raises(ConnectionLost, match="Authentication required"):
            await turn.wait()
