"""The conductor: several programs as one agent."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from accord import Agent, Proxy, Text, Turn, chain, component, connect, v1
from accord.errors import RequestError
from accord.proxy.conductor import Component, ComponentLost, conduct
from accord.proxy.stage import Stage
from accord.script_agent.agent import ScriptAgent
from accord.testing import Recorder
from accord.transports.memory import MemoryTransport, pair
from needs import needs
from requirement import requirement

AGENT = ScriptAgent
AGENT_PROCESS = [sys.executable, "-m", "accord", "agent", "script"]
PROGRAMS = Path(__file__).parent / "programs"
PASSES = str(PROGRAMS / "pass_proxy.py")
BY_HAND = str(PROGRAMS / "hand_proxy.py")


class _Passes:
    def stage(self) -> Stage:
        return Stage()


async def _streams(parts: Any, **options: Any) -> list[str]:
    async with asyncio.timeout(30), connect(parts, **options) as agent:
        session = await agent.new_session(".")
        async with session.prompt("stream 3") as turn:
            return [event.text async for event in turn if isinstance(event, Text)]


@pytest.mark.parametrize("version", [1, 2])
@requirement("R-PROXY-01", "R-PROXY-02", "R-PROXY-07")
async def test_chain_of_objects_and_programs_is_one_agent(version: int) -> None:
    parts = chain(_Passes(), PASSES, _Passes(), [sys.executable, PASSES], AGENT_PROCESS)
    assert await _streams(parts, versions=[version]) == ["1 ", "2 ", "3 "]


@pytest.mark.parametrize("dialect", ["acp", "rust", "thinkwell"])
@requirement("R-PROXY-25")
async def test_proxy_written_by_hand_works_in_each_dialect(dialect: str) -> None:
    # The first two are found in the handshake.
    by_hand = component(
        [sys.executable, BY_HAND, dialect], dialect="thinkwell" if dialect == "thinkwell" else None
    )
    parts = chain(PASSES, by_hand, component([BY_HAND, "acp"], dialect="acp"), AGENT)
    assert await _streams(parts) == ["1 ", "2 ", "3 "]


@needs("accord_terminal")
async def test_chain_is_a_component() -> None:
    inner = [sys.executable, "-m", "accord", "chain", PASSES, f"{sys.executable} {BY_HAND} rust"]
    assert await _streams(chain(inner, chain(_Passes(), AGENT))) == ["1 ", "2 ", "3 "]


async def test_agent_of_this_process_is_a_component() -> None:
    class Echo(Agent):
        async def prompt(self, turn: Turn) -> None:
            await turn.say("here")

    assert await _streams(chain(_Passes(), Echo)) == ["here"]
    assert await _streams(chain(_Passes(), Echo())) == ["here"]


async def test_class_of_a_proxy_is_a_component_with_one_object_for_each_connection() -> None:
    made: list[object] = []

    class Passes(Proxy):
        def __init__(self) -> None:
            made.append(self)

    class Typed(v1.Proxy):
        pass

    parts = chain(Passes, Typed, AGENT)
    assert repr(parts).startswith("<Chain Passes → Typed →")
    for number in (1, 2):
        assert await _streams(parts, versions=[1]) == ["1 ", "2 ", "3 "]
        assert len(made) == number


# Handshakes, frame by frame.


class _Played:
    """A component that the test plays: what it receives, and a transport to write with."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.here, self._there = pair()
        self.received = Recorder()
        self.started = asyncio.Event()

    async def open(self) -> MemoryTransport:
        await self.here.start(self.received)
        self.started.set()
        return self._there

    @property
    def component(self) -> Component:
        return Component(self.name, open=self.open)

    def exits_when_told(self) -> tuple[asyncio.Event, asyncio.Event]:
        """Return an event for the question how this component ended, and one for the answer."""
        asked, told = asyncio.Event(), asyncio.Event()

        async def exit_error() -> None:
            asked.set()
            await told.wait()

        self._there.exit_error = exit_error  # takes no time otherwise
        return asked, told

    async def next(self, count: int) -> list[Any]:
        await self.received.until(lambda: len(self.received.frames) >= count)
        return [json.loads(frame) for frame in self.received.frames]

    def write(self, **message: Any) -> None:
        self.here.write([json.dumps({"jsonrpc": "2.0", **message}).encode()])


@asynccontextmanager
async def _playing(*names: str) -> AsyncGenerator[Sequence[_Played]]:
    """Play the client, which comes first, and all components."""
    client, *components = [_Played(name) for name in ("client", *names)]
    conducting = asyncio.ensure_future(
        conduct([one.component for one in components], await client.open())
    )
    try:
        yield [client, *components]
    finally:
        for one in (client, *components):
            await one.here.aclose()
        async with asyncio.timeout(10):
            await conducting


def _request(method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 0, "method": method, "params": params}


PARAMS = {"protocolVersion": 1, "clientCapabilities": {}, "unknown": 1.5}


@requirement("R-PROXY-01", "R-PROXY-02", "R-PROXY-08")
async def test_handshake_goes_from_left_to_right_and_back() -> None:
    async with _playing("one", "two", "agent") as (client, one, two, agent):
        client.write(id="i", method="initialize", params=PARAMS)
        [message] = await one.next(1)
        assert message == {
            "jsonrpc": "2.0",
            "id": 0,
            "method": "proxy/initialize",
            "params": PARAMS,
        }
        inner = {"method": "initialize", "params": PARAMS}
        one.write(id="a", method="proxy/successor", params={**inner, "_meta": {"hop": 1}})
        [message] = await two.next(1)
        assert message == {
            "jsonrpc": "2.0",
            "id": 0,
            "method": "proxy/initialize",
            "params": PARAMS,
        }
        two.write(id="b", method="_proxy/successor", params={**inner, "meta": {"hop": 1}})
        [message] = await agent.next(1)
        assert message == _request("initialize", PARAMS)
        agent.write(id=0, result={"protocolVersion": 1, "by": ["agent"]})
        result = {"protocolVersion": 1, "by": ["agent"]}
        assert (await two.next(2))[1] == {"jsonrpc": "2.0", "id": "b", "result": result}
        two.write(id=0, result={"protocolVersion": 1, "by": ["agent", "two"]})
        result = {"protocolVersion": 1, "by": ["agent", "two"]}
        assert (await one.next(2))[1] == {"jsonrpc": "2.0", "id": "a", "result": result}
        one.write(id=0, result={"protocolVersion": 1, "by": ["agent", "two", "one"]})
        result = {"protocolVersion": 1, "by": ["agent", "two", "one"]}
        assert await client.next(1) == [{"jsonrpc": "2.0", "id": "i", "result": result}]


async def _initialized(client: _Played, *components: _Played) -> None:
    """Play a handshake in which no component changes anything."""
    client.write(id="i", method="initialize", params=PARAMS)
    *proxies, agent = components
    for proxy in proxies:
        await proxy.next(1)
        inner = {"method": "initialize", "params": PARAMS}
        proxy.write(id="i", method="proxy/successor", params=inner)
    await agent.next(1)
    agent.write(id=0, result={"protocolVersion": 1})
    for proxy in reversed(proxies):
        await proxy.next(2)
        proxy.write(id=0, result={"protocolVersion": 1})
    await client.next(1)


@requirement("R-PROXY-10")
async def test_only_the_conductor_initializes_proxies() -> None:
    async with _playing("proxy", "agent") as (client, proxy, agent):
        await _initialized(client, proxy, agent)
        client.write(id=1, method="proxy/initialize", params=PARAMS)
        assert (await client.next(2))[1]["error"]["code"] == -32600
        proxy.write(id=1, method="proxy/initialize", params=PARAMS)
        inner = {"method": "_proxy/initialize", "params": PARAMS}
        proxy.write(id=2, method="proxy/successor", params=inner)
        answers = (await proxy.next(4))[2:]
        assert [answer["error"]["code"] for answer in answers] == [-32600, -32600]


@requirement("R-PROXY-09", "R-PROXY-23")
async def test_conductor_chooses_a_version_that_it_supports() -> None:
    async with _playing("agent") as (client, agent):
        client.write(id=1, method="session/new", params={})
        client.write(id=2, method="initialize", params={**PARAMS, "protocolVersion": 0})
        client.write(id=3, method="initialize", params={**PARAMS, "protocolVersion": 7})
        # Version 2 requires `info` (R-INIT-37).
        info = {"name": "unknown", "version": "unknown"}
        chosen = {**PARAMS, "protocolVersion": 2, "info": info}
        assert (await agent.next(1))[0]["params"] == chosen
        agent.write(id=0, error={"code": -32000, "message": "no"})
        answers = await client.next(3)
        assert [answer["error"]["code"] for answer in answers] == [-32600, -32022, -32000]
        # A failed `initialize` is answered again with the same error.
        client.write(id=4, method="initialize", params=PARAMS)
        await agent.next(2)  # another version
        agent.write(id=1, error={"code": -32602, "message": "old"})
        await client.next(4)
        client.write(id=5, method="initialize", params=PARAMS)
        client.write(id=6, method="initialize", params={**PARAMS, "protocolVersion": 2})
        assert (await client.next(6))[4:] == [
            {"jsonrpc": "2.0", "id": 5, "error": {"code": -32602, "message": "old"}},
            {"jsonrpc": "2.0", "id": 6, "error": {"code": -32000, "message": "no"}},
        ]
        assert len(agent.received.frames) == 2


@requirement("R-GEN-14")
@pytest.mark.parametrize(("version", "code"), [(1, -32601), (2, -32600)])
async def test_null_id_is_refused_in_version_2(version: int, code: int) -> None:
    async with _playing("agent") as (client, agent):
        client.write(id=1, method="initialize", params={**PARAMS, "protocolVersion": version})
        await agent.next(1)
        agent.write(id=0, result={"protocolVersion": version})
        await client.next(1)
        client.write(id=None, method="a")
        client.write(id=2, method="b")
        for number, message in enumerate((await agent.next(4 - version))[1:], 1):
            agent.write(id=number, error={"code": -32601, "message": message["method"]})
        answers = (await client.next(3))[1:]
        assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [
            (None, code),
            (2, -32601),
        ]


async def test_dialect_of_a_proxy_that_passes_on_what_it_does_not_know_is_found() -> None:
    async with _playing("proxy", "agent") as (client, proxy, agent):
        client.write(id="i", method="initialize", params=PARAMS)
        await proxy.next(1)
        inner: dict[str, Any] = {"method": "proxy/initialize", "params": PARAMS}
        proxy.write(id="a", method="_proxy/successor", params=inner)
        error = (await proxy.next(2))[1]["error"]
        assert error["code"] == -32601
        proxy.write(id=0, error=error)
        assert (await proxy.next(3))[2]["method"] == "_proxy/initialize"
        proxy.write(id="b", method="_proxy/successor", params={**inner, "method": "initialize"})
        assert await agent.next(1) == [_request("initialize", PARAMS)]


@pytest.mark.parametrize("accepts", [True, False])
async def test_mark_of_thinkwell_is_removed_and_required(accepts: bool) -> None:
    played, agent, client = _Played("proxy"), _Played("agent"), _Played("client")
    proxy = component(played.open, name="proxy", dialect="thinkwell")
    conducting = asyncio.ensure_future(conduct([proxy, agent.component], await client.open()))
    client.write(id="i", method="initialize", params=PARAMS)
    marked = {**PARAMS, "_meta": {"proxy": True}}
    assert await played.next(1) == [_request("initialize", marked)]
    inner = {"method": "initialize", "params": marked}
    played.write(id="a", method="_proxy/successor/request", params=inner)
    assert await agent.next(1) == [_request("initialize", PARAMS)]
    meta = {"_meta": {"proxy": True, "x": 1}} if accepts else {}
    played.write(id=0, result={"protocolVersion": 1, **meta})
    [answer] = await client.next(1)
    if accepts:
        assert answer["result"] == {"protocolVersion": 1, "_meta": {"x": 1}}
    else:
        assert "_meta.proxy" in answer["error"]["message"]
    for one in (client, played, agent):
        await one.here.aclose()
    async with asyncio.timeout(10):
        await conducting


@requirement("R-PROXY-24")
async def test_components_start_together_at_the_first_initialize() -> None:
    async with _playing("one", "two", "agent") as (client, one, two, agent):
        client.write(id=1, method="unknown")
        await client.next(1)
        assert not one.started.is_set()
        client.write(id=2, method="initialize", params=PARAMS)
        await one.next(1)
        assert two.started.is_set()
        assert agent.started.is_set()
        assert agent.received.frames == []


@requirement("R-PROXY-07")
async def test_conductor_is_a_proxy_after_proxy_initialize() -> None:
    async with _playing("one", "two") as (client, one, two):
        client.write(id="i", method="_proxy/initialize", params=PARAMS)
        inner = {"method": "initialize", "params": PARAMS}
        for proxy in (one, two):
            assert (await proxy.next(1))[0]["method"] == "proxy/initialize"
            proxy.write(id="i", method="proxy/successor", params=inner)
        assert await client.next(1) == [
            {"jsonrpc": "2.0", "id": 0, "method": "_proxy/successor", "params": inner}
        ]
        client.write(id=0, result={"protocolVersion": 1})
        update = {"method": "session/update", "params": {"sessionId": "s"}}
        client.write(method="_proxy/successor", params=update)
        assert (await two.next(3))[1:] == [
            {"jsonrpc": "2.0", "id": "i", "result": {"protocolVersion": 1}},
            {"jsonrpc": "2.0", "method": "proxy/successor", "params": update},
        ]


@requirement("R-PROXY-21", "R-REQCAN-11", "R-REQCAN-14")
async def test_cancel_names_the_id_of_each_hop() -> None:
    async with _playing("proxy", "agent") as (client, proxy, agent):
        await _initialized(client, proxy, agent)
        client.write(id="p", method="session/prompt", params={"sessionId": "s"})
        assert (await proxy.next(3))[2]["id"] == 1
        inner = {"method": "session/prompt", "params": {"sessionId": "s"}}
        proxy.write(id="mine", method="proxy/successor", params=inner)
        assert (await agent.next(2))[1]["id"] == 1
        client.write(method="$/cancel_request", params={"requestId": "p"})
        assert (await proxy.next(4))[3] == {
            "jsonrpc": "2.0",
            "method": "$/cancel_request",
            "params": {"requestId": 1},
        }
        assert len(agent.received.frames) == 2
        wrapped = {"method": "$/cancel_request", "params": {"requestId": "mine"}}
        proxy.write(method="proxy/successor", params=wrapped)
        assert (await agent.next(3))[2]["params"] == {"requestId": 1}


@requirement("R-PROXY-17", "R-PROXY-22")
async def test_requests_fail_with_the_name_of_the_component_that_ended() -> None:
    async with _playing("proxy", "agent") as (client, proxy, agent):
        await _initialized(client, proxy, agent)
        client.write(id="p", method="session/prompt", params={"sessionId": "s"})
        await proxy.next(3)
        inner = {"method": "session/prompt", "params": {"sessionId": "s"}}
        proxy.write(id="mine", method="proxy/successor", params=inner)
        await agent.next(2)
        await agent.here.aclose()
        for played in (client, proxy):
            await played.received.until(lambda played=played: played.received.ended)
            error = json.loads(played.received.frames[-1])["error"]
            assert error["code"] == -32603
            assert error["data"] == {"component": "agent"}


# Ends.


@requirement("R-PROXY-22")
async def test_request_for_a_component_that_has_just_ended_fails_with_its_name() -> None:
    async with _playing("proxy", "agent") as (client, proxy, agent):
        noticed, reported = agent.exits_when_told()
        await _initialized(client, proxy, agent)
        await agent.here.aclose()
        async with asyncio.timeout(10):
            await noticed.wait()
        inner = {"method": "session/prompt", "params": {"sessionId": "s"}}
        proxy.write(id="late", method="proxy/successor", params=inner)
        proxy.write(id="refused", method="proxy/initialize", params=PARAMS)  # answered at once
        assert (await proxy.next(3))[2]["id"] == "refused"
        reported.set()
        late = (await proxy.next(4))[3]
        assert (late["id"], late["error"]["data"]) == ("late", {"component": "agent"})


@requirement("R-PROXY-22")
async def test_component_that_dies_is_named_with_its_last_words() -> None:
    dying = component([sys.executable, BY_HAND, "acp", "die-at", "session/prompt"], name="dying")
    with pytest.raises(RequestError) as caught:
        await _streams(chain(PASSES, dying, AGENT))
    assert caught.value.data == {"component": "dying"}
    assert "exited with status 7: these are my last words" in str(caught.value)


@pytest.mark.parametrize("version", [1, 2])
async def test_proxy_that_exits_in_a_method_is_named_with_its_exit_status(
    version: int, tmp_path: Path
) -> None:
    program = tmp_path / "leaving.py"
    program.write_text(
        "import sys, accord\n"
        "class Leaving(accord.Proxy):\n"
        "    async def prompt(self, turn, forward):\n"
        "        sys.exit('these are my last words')\n"
        "Leaving().run()\n"
    )
    with pytest.raises(RequestError) as caught:
        await _streams(chain(PASSES, program, AGENT), versions=[version])
    assert caught.value.data == {"component": "leaving.py"}
    assert "exited with status 1: these are my last words" in str(caught.value)


async def test_prompt_is_cancelled_after_the_client_has_disconnected() -> None:
    async with _playing("proxy", "agent") as (client, proxy, agent):
        await _initialized(client, proxy, agent)
        client.write(id="p", method="session/prompt", params={"sessionId": "s"})
        await proxy.next(3)
        await client.here.aclose()
        cancelled = (await proxy.next(4))[3]
        assert (cancelled["method"], cancelled["params"]) == ("session/cancel", {"sessionId": "s"})
        proxy.write(id=(await proxy.next(4))[2]["id"], result={"stopReason": "cancelled"})


async def test_component_that_cannot_be_started_is_named() -> None:
    with pytest.raises(RequestError) as caught:
        await _streams(chain(PASSES, "does-not-exist-12", AGENT))
    assert caught.value.data == {"component": "does-not-exist-12"}


async def test_proxy_in_the_place_of_the_agent_is_named() -> None:
    for last in (_Passes(), component(PASSES)):
        with pytest.raises(RequestError, match="is a proxy: the last component is") as caught:
            await _streams(chain(PASSES, component(last, name="odd")))
        assert caught.value.data == {"component": "odd"}


async def test_agent_in_the_place_of_a_proxy_is_named() -> None:
    for dialect in (None, "thinkwell"):
        odd = component(AGENT, name="odd", dialect=dialect)
        with pytest.raises(RequestError, match=r"'odd' is not a proxy \(only the") as caught:
            await _streams(chain(odd, AGENT))
        assert caught.value.data == {"component": "odd"}


@pytest.mark.parametrize(
    ("method", "place"),
    [("proxy/initialize", 1), ("session/new", 0), ("session/update", 2)],
)
async def test_death_of_a_component_ends_all_processes(
    method: str, place: int, tmp_path: Path
) -> None:
    dying = [sys.executable, BY_HAND, "acp", "die-at", method]
    parts: list[Any] = [PASSES, PASSES]
    parts.insert(place, component(dying, name="dying"))
    pids: list[int] = []
    started = [_with_pid(component(part), pids) for part in (*parts, AGENT_PROCESS)]
    with pytest.raises((RequestError, ComponentLost), match="last words") as caught:
        await _streams(chain(*started))
    assert "to choose another" not in str(caught.value)  # its version was not the reason
    assert len(pids) == 4
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def _with_pid(part: Component, pids: list[int]) -> Component:
    async def make() -> Any:
        assert part.open is not None
        transport: Any = part.open()
        transport.spawn()
        pids.append(transport.pid)
        transport.spawn = lambda: None
        return transport

    return Component(part.name, open=make)


def test_component_rejects_what_it_cannot_start() -> None:
    with pytest.raises(ValueError, match="dialect: expected one of acp, rust, thinkwell"):
        component("x", dialect="other")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="only for a command"):
        component("ws://host/acp", cwd=".")
    with pytest.raises(TypeError, match="only for the address"):
        component("x", token="t")
    with pytest.raises(TypeError, match="A component is"):
        component(7)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected components"):
        chain()
    assert component("recorder.py --fast").name == "recorder.py"
    assert repr(chain("a.py", "b")) == "<Chain a.py → b>"
