"""`initialize`: both versions on either side, order, failures, and agents that violate it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, assert_type

import pytest

from accord import v1, v2
from accord.errors import (
    AccordError,
    AuthRequired,
    ConnectionLost,
    InvalidParams,
    RemoteProtocolError,
    RequestError,
    UnsupportedVersion,
)
from accord.roles import connect, serve
from accord.transports.base import Transport
from accord.transports.memory import pair
from event_loop import drain_event_loop
from quirk import quirk
from raw_peer import QUICK, RawPeer, cancel, request, success
from requirement import requirement

INFO: Any = {"name": "c", "version": "1"}


class Agent1(v1.AgentRole):
    def new_session(self, params: Any, context: Any) -> Any:
        return v1.NewSessionResponse(session_id="one")


class Agent2(v2.AgentRole):
    def new_session(self, params: Any, context: Any) -> Any:
        return v2.NewSessionResponse(session_id="two")

    def list_sessions(self, params: Any, context: Any) -> Any:
        return v2.ListSessionsResponse(sessions=[])

    def resume_session(self, params: Any, context: Any) -> Any:
        return v2.ResumeSessionResponse()

    def close_session(self, params: Any, context: Any) -> Any:
        return v2.CloseSessionResponse()

    def prompt(self, params: Any, context: Any) -> Any:
        return v2.PromptResponse(message_id="m")


class Client1(v1.ClientRole):
    def __init__(self) -> None:
        self.updates: list[Any] = []

    def session_update(self, params: Any, context: Any) -> None:
        self.updates.append(params.update)


class Reader1(Client1):
    def read_text_file(self, params: Any, context: Any) -> Any:
        return v1.ReadTextFileResponse(content="text")


class Client2(v2.ClientRole):
    def session_update(self, params: Any, context: Any) -> None: ...


class Asking2(Client2):
    def create_elicitation(self, params: Any, context: Any) -> Any:
        return v2.ElicitationCancelAction()


AGENTS = {"v1": (Agent1,), "v2": (Agent2,), "both": (Agent1, Agent2)}
CLIENTS = {"v1": (Client1,), "v2": (Client2,), "both": (Client1, Client2)}


@asynccontextmanager
async def serving(transport: Transport, *agents: Any) -> AsyncGenerator[None]:
    task = asyncio.create_task(serve(transport, *agents, limits=QUICK))
    try:
        yield
    finally:
        await transport.aclose()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def raw_client(*agents: Any) -> AsyncGenerator[RawPeer]:
    """Serve agents to a raw client."""
    here, there = pair()
    async with serving(here, *agents):
        raw = RawPeer(there)
        await there.start(raw)
        yield raw


class RawAgents:
    """Raw agents: each connection is to a new one."""

    def __init__(self) -> None:
        self.agents: asyncio.Queue[RawPeer] = asyncio.Queue()

    async def __call__(self) -> Transport:
        here, there = pair()
        raw = RawPeer(there)
        await there.start(raw)
        self.agents.put_nowait(raw)
        return here


@asynccontextmanager
async def connecting(
    *clients: Any, transport: Any = None
) -> AsyncGenerator[tuple[asyncio.Future[Any], RawAgents, asyncio.Event]]:
    """Connect clients to raw agents; yield the remote agent, the raw agents and a leave event."""
    agents, leave = RawAgents(), asyncio.Event()
    opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def run() -> None:
        try:
            async with connect(transport or agents, *clients, limits=QUICK) as remote:
                opened.set_result(remote)
                await leave.wait()
        except Exception as exc:
            if opened.done():
                raise
            opened.set_exception(exc)

    task = asyncio.create_task(run())
    try:
        yield opened, agents, leave
    finally:
        leave.set()
        await task


def v1_params(version: int = 1, **more: Any) -> Any:
    return {"protocolVersion": version, "clientCapabilities": {}, **more}


def v2_params(version: int = 2, **more: Any) -> Any:
    return {"protocolVersion": version, "info": INFO, "capabilities": {}, **more}


V1_BODY = {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": INFO}
V2_BODY = {"protocolVersion": 2, "capabilities": {}, "info": INFO}
FALSE_V2 = {**V1_BODY, "protocolVersion": 2}


# Both sides by Accord.


@requirement("R-INIT-02", "R-INIT-05")
@pytest.mark.parametrize(
    ("agent", "client", "version"),
    [
        ("v1", "v1", 1),
        ("v1", "v2", None),
        ("v1", "both", 1),
        ("v2", "v1", None),
        ("v2", "v2", 2),
        ("v2", "both", 2),
        ("both", "v1", 1),
        ("both", "v2", 2),
        ("both", "both", 2),
    ],
)
async def test_newest_common_version_is_used(agent: str, client: str, version: int | None) -> None:
    here, there = pair()
    agents, clients = [cls() for cls in AGENTS[agent]], [cls() for cls in CLIENTS[client]]
    async with serving(here, *agents):
        if version is None:
            with pytest.raises(UnsupportedVersion):
                async with connect(there, *clients, limits=QUICK):
                    pass
            return
        async with connect(there, *clients, limits=QUICK) as remote:
            assert remote.spec.version == version
            assert remote.initialized.protocol_version == version
            params: Any = (v1, v2)[version - 1].NewSessionRequest(cwd="/", mcp_servers=[])
            answer = await remote.new_session(params)
            assert answer.session_id == ("one", "two")[version - 1]


@requirement("R-INIT-12")
@pytest.mark.parametrize(
    ("params", "keys"),
    [
        (v1_params(1), {"agentCapabilities"}),
        (v2_params(2), {"capabilities", "info"}),
        (v2_params(3), {"capabilities", "info"}),
    ],
    ids=["1", "2", "3"],
)
async def test_result_of_initialize_has_the_shape_of_its_version(
    params: Any, keys: set[str]
) -> None:
    async with raw_client(Agent1(), Agent2()) as raw:
        result = await raw.result_of(1, "initialize", params)
        assert keys <= result.keys()
        other = {"agentCapabilities", "capabilities"} - keys
        assert not other & result.keys()


@requirement("R-INIT-10", "R-INIT-12")
@pytest.mark.parametrize("params", [v1_params(1), v2_params(2)], ids=["v1", "v2"])
async def test_version_can_be_requested_with_a_point(params: Any) -> None:
    """In JSON Schema 1.0 is an integer."""
    async with raw_client(Agent1(), Agent2()) as raw:
        version = params["protocolVersion"]
        result = await raw.result_of(1, "initialize", {**params, "protocolVersion": version + 0.0})
        assert result["protocolVersion"] == version
        assert type(result["protocolVersion"]) is int


@requirement("R-INIT-08", "R-INIT-09")
@pytest.mark.parametrize(
    ("params", "method"), [(v1_params(), "auth/login"), (v2_params(), "authenticate")]
)
async def test_method_of_the_other_version_is_not_found(params: Any, method: str) -> None:
    async with raw_client(Agent1(), Agent2()) as raw:
        await raw.result_of(1, "initialize", params)
        assert (await raw.error_of(2, method, {"methodId": "key"}))["code"] == -32601


@requirement("R-INIT-11")
async def test_each_connection_of_an_agent_has_its_own_version() -> None:
    agents = Agent1(), Agent2()
    async with raw_client(*agents) as one, raw_client(*agents) as two:
        await one.result_of(1, "initialize", v1_params())
        await two.result_of(1, "initialize", v2_params())
        for raw, session_id in ((one, "one"), (two, "two")):
            made = await raw.result_of(2, "session/new", {"cwd": "/", "mcpServers": []})
            assert made["sessionId"] == session_id


@pytest.mark.parametrize("roles", [(), (Agent1(), Agent1())])
async def test_one_role_of_each_version_is_expected(roles: Any) -> None:
    here, there = pair()
    with pytest.raises(ValueError, match="role object"):
        await serve(here, *roles)
    await there.aclose()


async def test_class_or_role_of_the_other_side_is_rejected_at_once() -> None:
    wrong: Any
    for wrong in (v1.AgentRole, v1.ClientRole()):
        with pytest.raises(TypeError, match="role objects of the agent"):
            await serve(pair()[0], wrong)
    for wrong in (v1.ClientRole, v1.AgentRole()):
        with pytest.raises(TypeError, match="role objects of the client"):
            async with connect(pair()[0], wrong):
                pass


async def test_user_cannot_set_the_version() -> None:
    class Liar1(Agent1):
        def initialize(self, params: Any, context: Any) -> Any:
            return v1.InitializeResponse(protocol_version=2)

    class Liar2(Agent2):
        async def initialize(self, params: Any, context: Any) -> Any:
            return v2.InitializeResponse(protocol_version=7, info=v2.Implementation(**INFO))

    async with raw_client(Liar1(), Liar2()) as raw:
        assert (await raw.result_of(1, "initialize", v1_params()))["protocolVersion"] == 1
    async with raw_client(Liar1(), Liar2()) as raw:
        assert (await raw.result_of(1, "initialize", v2_params(9)))["protocolVersion"] == 2


# The agent's side.


@requirement("R-INIT-01", "R-INIT-30", "R-ROUTE-01", "R-BATCH-10")
async def test_messages_before_initialize_are_rejected_and_only_requests_are_answered() -> None:
    async with raw_client(Agent1(), Agent2()) as raw:
        raw.tell("session/cancel", {"sessionId": "s"})
        raw.send(success(3, {}), cancel(9))
        for method in ("session/new", "_ext", "unknown"):
            assert (await raw.error_of(method, method, {}))["code"] == -32600
        raw.send([request(1, "initialize", v1_params())])
        answer = await raw.get()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        assert (await raw.error_of(2, "initialize", {}))["code"] == -32602
        assert (await raw.result_of(3, "initialize", v1_params()))["protocolVersion"] == 1


@requirement("R-INIT-31", "R-ROUTE-02")
async def test_version_older_than_all_supported_ones_is_rejected_with_a_list() -> None:
    async with raw_client(Agent2()) as raw:
        error = await raw.error_of(1, "initialize", v1_params())
        assert error["code"] == -32022
        assert error["data"] == {"requested": 1, "supported": [2]}
        assert (await raw.result_of(2, "initialize", v2_params()))["protocolVersion"] == 2


@requirement("R-INIT-21", "R-ROUTE-05", "R-ROUTE-01")
async def test_version_2_is_decoded_strictly() -> None:
    async with raw_client(Agent2()) as raw:
        for info in ({}, {"info": None}, {"info": {"name": "c"}}):
            params = {"protocolVersion": 2, "capabilities": {}, **info}
            error = await raw.error_of(1, "initialize", params)
            assert error["code"] == -32602
            assert error["data"]["path"].startswith("$")


@requirement("R-INIT-37", "R-ROUTE-05")
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"info": None, "capabilities": []},
        {"info": {"name": 1, "version": None, "title": 3}},
        {"info": {"name": "c", "version": "1"}, "capabilities": {"auth": 1, "elicitation": []}},
        {"capabilities": {"session": {}}, "info": 7, "news": [1]},
        {"_meta": 5},
        {"info": {"name": "c", "version": "1", "_meta": 1}, "capabilities": {"_meta": 1}},
    ],
)
async def test_version_newer_than_2_is_decoded_leniently(more: Any) -> None:
    seen: list[Any] = []

    class Agent(Agent2):
        def initialize(self, params: Any, context: Any) -> Any:
            seen.append(params.info)
            return super().initialize(params, context)

    async with raw_client(Agent()) as raw:
        answer = await raw.result_of(1, "initialize", {"protocolVersion": 3, **more})
        assert answer["protocolVersion"] == 2
        name = more["info"].get("name") if isinstance(more.get("info"), dict) else None
        assert seen[0].name == ("c" if name == "c" else "unknown")


@requirement("R-INIT-13", "R-ROUTE-06")
async def test_v2_params_are_translated_for_a_v1_agent() -> None:
    seen: list[Any] = []

    class Agent(Agent1):
        def initialize(self, params: Any, context: Any) -> Any:
            seen.append(params)
            return super().initialize(params, context)

    async with raw_client(Agent()) as raw:
        answer = await raw.result_of(1, "initialize", v2_params())
        assert answer["protocolVersion"] == 1
        assert "agentCapabilities" in answer
    assert seen[0].client_info == v1.Implementation(name="c", version="1")
    assert seen[0].client_capabilities.plan == v1.PlanCapabilities()
    assert not seen[0].client_capabilities.fs.read_text_file


@requirement("R-INIT-30")
@pytest.mark.parametrize("delayed", [False, True])
async def test_failed_initialize_can_be_sent_again(delayed: bool) -> None:
    class Fails(Agent1):
        tries = 0

        def initialize(self, params: Any, context: Any) -> Any:
            self.tries += 1
            return self.later(params, context) if delayed else self.now(params, context)

        def now(self, params: Any, context: Any) -> Any:
            if self.tries == 1:
                raise AuthRequired
            return super().initialize(params, context)

        async def later(self, params: Any, context: Any) -> Any:
            return self.now(params, context)

    async with raw_client(Fails()) as raw:
        assert (await raw.error_of(1, "initialize", v1_params()))["code"] == -32000
        assert (await raw.error_of(2, "session/new", {}))["code"] == -32600
        assert (await raw.result_of(3, "initialize", v1_params()))["protocolVersion"] == 1


class Slow(Agent2):
    """Answers `initialize` when the test says so."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def initialize(self, params: Any, context: Any) -> Any:
        await self.gate.wait()
        return super().initialize(params, context)


@requirement("R-INIT-34", "R-INIT-35")
async def test_requests_during_initialize_are_rejected() -> None:
    agent = Slow()
    async with raw_client(agent) as raw:
        raw.ask(1, "initialize", v2_params())
        assert (await raw.error_of(2, "session/list", {}))["code"] == -32600
        assert (await raw.error_of(3, "initialize", v2_params()))["code"] == -32600
        agent.gate.set()
        assert (await raw.get())["result"]["protocolVersion"] == 2
        assert await raw.result_of(4, "session/list", {}) == {"sessions": []}


@requirement("R-INIT-35")
async def test_v2_requests_during_a_repeated_initialize_are_rejected() -> None:
    agent = Slow()
    agent.gate.set()
    async with raw_client(agent) as raw:
        await raw.result_of(1, "initialize", v2_params())
        agent.gate.clear()
        raw.ask(2, "initialize", v2_params())
        assert (await raw.error_of(3, "session/list", {}))["code"] == -32600
        raw.send(cancel(2))
        assert (await raw.get())["error"]["code"] == -32800
        assert await raw.result_of(4, "session/list", {}) == {"sessions": []}


@requirement("R-REQCAN-14")
@pytest.mark.parametrize("together", [False, True])
async def test_cancelled_initialize_can_be_sent_again(together: bool) -> None:
    agent = Slow()
    async with raw_client(agent) as raw:
        if together:
            raw.send(request(1, "initialize", v2_params()), cancel(1))
        else:
            raw.ask(1, "initialize", v2_params())
            await drain_event_loop()
            raw.send(cancel(1))
        assert (await raw.get())["error"]["code"] == -32800
        agent.gate.set()
        assert (await raw.result_of(2, "initialize", v2_params()))["protocolVersion"] == 2


@requirement("R-INIT-33", "R-ROUTE-07")
async def test_v2_can_repeat_initialize_until_its_first_request() -> None:
    async with raw_client(Agent1(), Agent2()) as raw:
        for n in range(2):
            assert (await raw.result_of(n, "initialize", v2_params()))["protocolVersion"] == 2
        assert (await raw.error_of(3, "initialize", v1_params()))["code"] == -32600
        assert (await raw.result_of(4, "initialize", v2_params(3)))["protocolVersion"] == 2
        await raw.result_of(5, "session/list", {})
        assert (await raw.error_of(6, "initialize", v2_params()))["code"] == -32600
        assert await raw.result_of(7, "session/list", {}) == {"sessions": []}


@requirement("R-INIT-39")
async def test_v1_can_repeat_initialize_at_any_time() -> None:
    async with raw_client(Agent1()) as raw:
        await raw.result_of(1, "initialize", v1_params())
        await raw.result_of(2, "session/new", {"cwd": "/", "mcpServers": []})
        assert (await raw.result_of(3, "initialize", v1_params()))["protocolVersion"] == 1
        await raw.result_of(4, "session/new", {"cwd": "/", "mcpServers": []})


@requirement("R-GEN-06", "R-GEN-14")
async def test_null_ids_are_rejected_in_v2() -> None:
    async with raw_client(Agent1(), Agent2()) as raw:
        await raw.result_of(1, "initialize", v2_params())
        raw.ask(None, "session/list", {})
        answer = await raw.get()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
    async with raw_client(Agent1()) as raw:
        await raw.result_of(1, "initialize", v1_params())
        assert "sessionId" in await raw.result_of(
            None, "session/new", {"cwd": "/", "mcpServers": []}
        )


@requirement("R-ROUTE-03")
async def test_v2_initialize_needs_an_id() -> None:
    async with raw_client(Agent1(), Agent2()) as raw:
        error = await raw.error_of(None, "initialize", v2_params())
        assert error["code"] == -32600
        assert (await raw.result_of(1, "initialize", v2_params()))["protocolVersion"] == 2


# The client's side.


@requirement("R-INIT-03")
async def test_client_sends_its_newest_version_and_its_implementation() -> None:
    async with connecting(Reader1(), Asking2()) as (opened, agents, _):
        raw = await agents.agents.get()
        asked = await raw.get()
        assert (asked["method"], asked["params"]["protocolVersion"]) == ("initialize", 2)
        assert asked["params"]["info"]["name"] == "Asking2"
        assert asked["params"]["capabilities"] == {"elicitation": {"form": {}}}
        raw.answer(asked["id"], V2_BODY)
        assert (await opened).spec.version == 2


@requirement("R-INIT-36", "R-INIT-38")
async def test_messages_before_the_response_are_held_until_it_arrives() -> None:
    client = Client1()
    async with connecting(client) as (opened, agents, _):
        raw = await agents.agents.get()
        asked = await raw.get()
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}
        raw.tell("session/update", {"sessionId": "s", "update": update})
        raw.ask("early", "_ext", {})
        await drain_event_loop()
        assert client.updates == []
        assert raw.inbox.empty()
        raw.answer(asked["id"], V1_BODY)
        await opened
        assert len(client.updates) == 1
        answer = await raw.get()
        assert (answer["id"], answer["error"]["code"]) == ("early", -32601)


@requirement("R-INIT-14", "R-INIT-15")
@pytest.mark.parametrize("body", [V1_BODY, FALSE_V2], ids=["v1", "false v2"])
async def test_v1_agent_is_asked_again_with_v1_params(body: Any) -> None:
    async with connecting(Reader1(), Client2()) as (opened, agents, _):
        raw = await agents.agents.get()
        first = await raw.get()
        raw.answer(first["id"], body)
        second = await raw.get()
        assert second["params"]["protocolVersion"] == 1
        assert second["params"]["clientCapabilities"] == {"fs": {"readTextFile": True}}
        raw.answer(second["id"], V1_BODY)
        remote = await opened
        assert (remote.spec.version, remote.initialized.protocol_version) == (1, 1)
        raw.ask(9, "fs/read_text_file", {"sessionId": "s", "path": "/a"})
        assert (await raw.get())["result"] == {"content": "text"}
        assert agents.agents.empty()


@requirement("R-INIT-15")
async def test_client_without_capabilities_does_not_ask_again() -> None:
    async with connecting(Client1(), Client2()) as (opened, agents, _):
        raw = await agents.agents.get()
        raw.answer((await raw.get())["id"], V1_BODY)
        assert (await opened).spec.version == 1
        await drain_event_loop()
        assert raw.inbox.empty()


@requirement("R-INIT-15")
async def test_rejected_repeat_is_sent_on_a_new_connection() -> None:
    async with connecting(Reader1(), Client2()) as (opened, agents, _):
        raw = await agents.agents.get()
        raw.answer((await raw.get())["id"], V1_BODY)
        again = await raw.get()
        error = {"code": -32600, "message": "once only"}
        raw.send({"jsonrpc": "2.0", "id": again["id"], "error": error})
        fresh = await agents.agents.get()
        await raw.ended.wait()
        asked = await fresh.get()
        assert asked["params"]["protocolVersion"] == 1
        fresh.answer(asked["id"], V1_BODY)
        assert (await opened).spec.version == 1


async def test_rejected_repeat_on_a_single_transport_is_raised() -> None:
    here, there = pair()
    raw = RawPeer(there)
    await there.start(raw)
    async with connecting(Reader1(), Client2(), transport=here) as (opened, _, _):
        raw.answer((await raw.get())["id"], V1_BODY)
        error = {"code": -32600, "message": "once only"}
        raw.send({"jsonrpc": "2.0", "id": (await raw.get())["id"], "error": error})
        with pytest.raises(RequestError):
            await opened
    await there.aclose()


REFUSED = {"code": -32602, "message": "protocolVersion: expected 1"}


@quirk("v2-refused-as-invalid")
async def test_agent_that_rejects_v2_as_invalid_is_restarted_and_asked_for_v1() -> None:
    async with connecting(Reader1(), Client2()) as (opened, agents, _):
        raw = await agents.agents.get()
        raw.send({"jsonrpc": "2.0", "id": (await raw.get())["id"], "error": REFUSED})
        fresh = await agents.agents.get()
        await raw.ended.wait()
        asked = await fresh.get()
        assert asked["params"]["protocolVersion"] == 1
        fresh.answer(asked["id"], V1_BODY)
        assert (await opened).spec.version == 1


@quirk("v2-refused-as-invalid")
async def test_agent_on_one_transport_that_rejects_v2_as_invalid_is_asked_again() -> None:
    here, there = pair()
    raw = RawPeer(there)
    await there.start(raw)
    async with connecting(Reader1(), Client2(), transport=here) as (opened, _, _):
        raw.send({"jsonrpc": "2.0", "id": (await raw.get())["id"], "error": REFUSED})
        asked = await raw.get()
        assert asked["params"]["protocolVersion"] == 1
        raw.answer(asked["id"], V1_BODY)
        assert (await opened).spec.version == 1
    await there.aclose()


@pytest.mark.parametrize("code", [-32602, -32603, -32601, -32000, -32022])
async def test_version_error_says_how_to_select_another(code: int) -> None:
    async with connecting(Client2()) as (opened, agents, _):
        raw = await agents.agents.get()
        error = {"code": code, "message": "No", "data": {"reason": "too new"}}
        raw.send({"jsonrpc": "2.0", "id": (await raw.get())["id"], "error": error})
        with pytest.raises(AccordError, match="No") as caught:
            await opened
        assert "accord ask --protocol 1|2" in str(caught.value)
        assert "connect(versions=…)" in str(caught.value)
        if isinstance(caught.value, RequestError):
            assert (caught.value.code, caught.value.data) == (code, {"reason": "too new"})


async def test_agent_that_rejects_both_versions_is_an_error() -> None:
    async with connecting(Reader1(), Client2()) as (opened, agents, _):
        for _ in range(2):
            raw = await agents.agents.get()
            raw.send({"jsonrpc": "2.0", "id": (await raw.get())["id"], "error": REFUSED})
        with pytest.raises(InvalidParams, match="of version 1; to choose another"):
            await opened
        assert agents.agents.empty()


@quirk("version-refused-code")
@requirement("R-INIT-07", "R-INIT-15", "R-INIT-32")
@pytest.mark.parametrize(
    ("clients", "answer"),
    [
        ((Client2,), {"result": V1_BODY}),
        ((Client2,), {"result": FALSE_V2}),
        ((Client1,), {"result": V2_BODY}),
        ((Client1, Client2), {"result": {**V2_BODY, "protocolVersion": 3}}),
        ((Client1, Client2), {"result": None}),
        ((Client1,), {"error": {"code": -32022, "message": "No", "data": {"supported": [2]}}}),
        ((Client1,), {"error": {"code": -32001, "message": "No"}}),
    ],
)
async def test_agent_with_other_versions_is_unsupported_and_disconnected(
    clients: Any, answer: Any
) -> None:
    async with connecting(*(cls() for cls in clients)) as (opened, agents, _):
        raw = await agents.agents.get()
        raw.send({"jsonrpc": "2.0", "id": (await raw.get())["id"], **answer})
        with pytest.raises(UnsupportedVersion):
            await opened
        await raw.ended.wait()


@requirement("R-INIT-21")
async def test_v2_response_without_info_is_an_error_of_the_agent() -> None:
    async with connecting(Client2()) as (opened, agents, _):
        raw = await agents.agents.get()
        raw.answer((await raw.get())["id"], {"protocolVersion": 2, "capabilities": {}})
        with pytest.raises(RemoteProtocolError):
            await opened


async def test_rejected_initialize_is_raised_and_the_agent_is_disconnected() -> None:
    async with connecting(Client1(), Client2()) as (opened, agents, _):
        raw = await agents.agents.get()
        error = {"code": -32000, "message": "Log in"}
        raw.send({"jsonrpc": "2.0", "id": (await raw.get())["id"], "error": error})
        with pytest.raises(AuthRequired):
            await opened
        await raw.ended.wait()


async def test_agent_that_disconnects_instead_of_responding_is_lost() -> None:
    async with connecting(Client1()) as (opened, agents, _):
        raw = await agents.agents.get()
        await raw.get()
        await raw.hang_up()
        with pytest.raises(ConnectionLost):
            await opened


async def test_agent_that_does_not_respond_in_time_is_disconnected() -> None:
    agents = RawAgents()
    with pytest.raises(TimeoutError):
        async with connect(agents, Client1(), limits=QUICK, initialize_timeout_s=0.01):
            pass
    await (await agents.agents.get()).ended.wait()


@requirement("R-GEN-14")
async def test_v2_client_rejects_null_ids() -> None:
    async with connecting(Client2()) as (opened, agents, _):
        raw = await agents.agents.get()
        raw.answer((await raw.get())["id"], V2_BODY)
        await opened
        raw.ask(None, "_ext", {})
        assert (await raw.get())["error"]["code"] == -32600


async def test_leaving_the_block_closes_the_connection() -> None:
    async with connecting(Client1()) as (opened, agents, leave):
        raw = await agents.agents.get()
        raw.answer((await raw.get())["id"], V1_BODY)
        await opened
        leave.set()
        await raw.ended.wait()


async def test_observers_see_initialize_on_both_sides() -> None:
    seen: dict[str, list[str]] = {"agent": [], "client": []}
    here, there = pair()
    agent = asyncio.create_task(
        serve(here, Agent1(), limits=QUICK, observers=[lambda way, _: seen["agent"].append(way)])
    )
    observers = [lambda way, _: seen["client"].append(way)]
    async with connect(there, Client1(), limits=QUICK, observers=observers):
        pass
    await agent
    assert seen == {"agent": ["received", "sent"], "client": ["sent", "received"]}


# Empty results.


@requirement("R-GEN-10")
async def test_handler_that_returns_none_is_answered_with_the_empty_result_of_its_method(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Silent(Agent1):
        def set_session_mode(self, params: Any, context: Any) -> Any:
            return None

        async def prompt(self, params: Any, context: Any) -> Any:
            return None

        def extension_request(self, method: str, params: Any, context: Any) -> Any:
            return None

    async with raw_client(Silent()) as raw:
        await raw.result_of(0, "initialize", v1_params())
        assert await raw.result_of(1, "session/set_mode", {"sessionId": "s", "modeId": "m"}) == {}
        assert await raw.result_of(2, "_any") is None
        error = await raw.error_of(3, "session/prompt", {"sessionId": "s", "prompt": []})
        assert error["code"] == -32603
        assert "The handler of session/prompt returned None" in caplog.text


@quirk("null-result")
@requirement("R-GEN-10")
async def test_null_result_is_accepted_if_nothing_is_required() -> None:
    async with connecting(Client1()) as (opened, agents, _):
        raw = await agents.agents.get()
        raw.answer((await raw.get())["id"], {"protocolVersion": 1})
        agent = await opened
        mode = v1.SetSessionModeRequest(session_id="s", mode_id="m")
        setting = asyncio.create_task(agent.set_session_mode(mode))
        raw.answer((await raw.get())["id"], None)
        assert await setting == v1.SetSessionModeResponse()


async def test_connect_yields_the_remote_of_the_given_roles() -> None:
    here, there = pair()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(serve(there, Agent1(), limits=QUICK))
        async with connect(here, Client1(), limits=QUICK) as remote:
            assert_type(remote, v1.RemoteAgent)
            assert type(remote) is v1.RemoteAgent
    here, there = pair()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(serve(there, Agent2(), limits=QUICK))
        async with connect(here, Client1(), Client2(), limits=QUICK) as either:
            assert_type(either, v1.RemoteAgent | v2.RemoteAgent)
            assert type(either) is v2.RemoteAgent
