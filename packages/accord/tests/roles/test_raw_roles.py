"""Raw roles: a program that forwards messages uses a connection before `initialize`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import Raw

import accord
from accord import v1, v2
from accord.connection.connection import Connection
from accord.connection.routes import Context
from accord.roles.handshake import InitializeParams
from accord.roles.raw import RawParams, RawRole, connect_raw, serve_raw
from accord.transports.base import Transport
from accord.transports.memory import pair
from accord.v1.methods import SPEC as V1
from accord.v2.methods import SPEC as V2
from accord.wire.base import replace
from accord.wire.codec import encode
from raw_peer import QUICK, RawPeer

SPECS = (V1, V2)


def as_it_is(text: bytes | Raw) -> Raw:
    return text if isinstance(text, Raw) else Raw(text)


class Passing(RawRole):
    """Forwards everything to the other connection of a proxy."""

    def __init__(self) -> None:
        self.other: Connection | None = None
        self.methods: list[str] = []
        self.sessions: dict[str, str | None] = {}

    def _next(self, method: str, params: RawParams) -> Connection:
        self.methods.append(method)
        self.sessions[method] = params.session_id
        assert self.other is not None
        return self.other

    async def request(self, method: str, params: RawParams, context: Context) -> Raw:
        other = self._next(method, params)
        return await other.call(method, params.text, as_it_is, session=params.session_id)

    async def notification(self, method: str, params: RawParams, context: Context) -> None:
        await self._next(method, params).notify(method, params.text)


class Proxy(Passing):
    """Serves the client, and appends to the name in its `clientInfo`."""

    def __init__(self) -> None:
        super().__init__()
        self.initialized: InitializeParams | None = None

    async def request(self, method: str, params: RawParams, context: Context) -> Raw:
        if method == "initialize":
            read = self.initialized = InitializeParams.read(bytes(params.text), SPECS)
            info = read.params.client_info if read.version == 1 else read.params.info
            assert info is not None
            changed = replace(info, name=f"{info.name} by proxy")
            key = "client_info" if read.version == 1 else "info"
            text = read.with_changes(replace(read.params, **{key: changed}))
            params = RawParams.decode(text)
        return await super().request(method, params, context)


@asynccontextmanager
async def proxied(agent: accord.Agent) -> AsyncGenerator[tuple[Transport, Proxy], None]:
    """Serve an agent through a proxy; yield the client's transport."""
    client_end, upstream = pair()
    downstream, agent_end = pair()
    proxy, back = Proxy(), Passing()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(accord.serve(agent, agent_end, limits=QUICK))
        async with (
            connect_raw(downstream, back, limits=QUICK) as to_agent,
            connect_raw(upstream, proxy, limits=QUICK) as to_client,
        ):
            proxy.other, back.other = to_agent, to_client
            yield client_end, proxy


class Agent(accord.Agent):
    """Repeats the prompt, asks for permission, and records its client."""

    names: list[str]

    async def prompt(self, turn: accord.Turn) -> None:
        async with turn.tool("Work", kind="edit") as call:
            await call.permission()
        self.names = [client.info.name for client in self.clients if client.info is not None]
        await turn.say(f"done: {turn.text}")


@pytest.mark.parametrize("version", [1, 2])
async def test_proxy_changes_initialize_and_forwards_everything_else(version: Any) -> None:
    agent = Agent()
    async with (
        proxied(agent) as (transport, proxy),
        accord.connect(
            transport, versions=[version], limits=QUICK, permissions=lambda request: "allow"
        ) as connected,
    ):
        session = await connected.new_session()
        async with session.prompt("hello") as turn:
            await turn.wait()
        assert turn.text == "done: hello"
        assert connected.version == version
        assert agent.names == ["accord by proxy"]
        assert proxy.initialized is not None
        assert proxy.initialized.version == version
        assert proxy.sessions["session/prompt"] == session.id
        assert proxy.methods[0] == "initialize"


async def test_sessions_of_a_raw_role_do_not_wait_for_each_other() -> None:
    here, there = pair()
    handled: list[str] = []
    release = asyncio.Event()

    class Slow(RawRole):
        def request(self, method: str, params: RawParams, context: Context) -> Any:
            raise NotImplementedError

        async def notification(self, method: str, params: RawParams, context: Context) -> None:
            if params.session_id == "slow":
                await release.wait()
            handled.append(f"{params.session_id} {params.value['n']}")
            if params.session_id == "quick":
                release.set()

    async with connect_raw(here, Slow(), limits=QUICK):
        other = RawPeer(there)
        await there.start(other)
        for session, n in (("slow", 1), ("slow", 2), ("quick", 3)):
            other.tell("session/update", {"sessionId": session, "n": n})
        async with asyncio.timeout(10):
            while len(handled) < 3:
                await asyncio.sleep(0)
        assert handled == ["quick 3", "slow 1", "slow 2"]
        await other.hang_up()


async def test_serve_raw_returns_when_the_peer_disconnects() -> None:
    here, there = pair()
    async with asyncio.timeout(10):
        other = RawPeer(there)
        await there.start(other)
        task = asyncio.create_task(serve_raw(here, Passing(), limits=QUICK))
        await other.hang_up()
        await task


@pytest.mark.parametrize(
    ("text", "session_id"),
    [
        (b'{"sessionId":"a","x":[1]}', "a"),
        (b'{"x":{"sessionId":"a"}}', None),
        (b'{"sessionId":1}', None),
        (b'{"sessionId":"\\ud800"}', "\ud800"),
        (b"[]", None),
        (b"null", None),
    ],
)
def test_raw_params_have_their_session(text: bytes, session_id: str | None) -> None:
    params = RawParams.decode(text)
    assert params.session_id == session_id
    assert bytes(params.text) == text


@pytest.mark.parametrize(
    ("requested", "cls"), [(1, v1.InitializeRequest), (2, v2.InitializeRequest)]
)
def test_initialize_is_decoded_without_a_role(requested: int, cls: type[Any]) -> None:
    text = encode(
        {
            "protocolVersion": requested,
            "clientInfo": {"name": "editor", "version": "1"},
            "info": {"name": "editor", "version": "1"},
            "capabilities": {},
            "future": [1],
        }
    )
    read = InitializeParams.read(text, SPECS)
    assert read.version == requested
    assert isinstance(read.params, cls)
    assert b'"future":[1]' in read.with_changes(read.params)
