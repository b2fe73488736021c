"""A client that reconnects: over real sockets, through a proxy that cuts them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

import accord
from accord import Agent, MemoryStore, Turn
from accord.transports.registry import ConnectionChange, Reconnect
from remote.servers import hypercorn
from remote.tcp_proxy import TcpProxy, tcp_proxy
from requirement import requirement
from versions import only

pytestmark = pytest.mark.usefixtures("closing_is_quick")

EVERYWHERE = pytest.mark.parametrize(
    ("scheme", "version"), [("ws", 1), ("ws", 2), ("http", 1), ("http", 2)]
)


class Remembers(Agent):
    """Answers each prompt with some words; `tool` makes a tool call."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.proceed = asyncio.Event()

    async def prompt(self, turn: Turn) -> None:
        if turn.text == "hold":
            await turn.say("before ")
            self.reached.set()
            await self.proceed.wait()
            await turn.say("after")
            return
        if turn.text == "permit":
            async with turn.tool("Write", kind="edit") as call:
                await call.permission()
            return
        await turn.think("a thought")
        for word in ("Hello ", "and ", "welcome"):
            await turn.say(word)
        async with turn.tool("Look", kind="read") as call:
            await call.add_content("found")
        await turn.say("Done")


def remembering() -> Agent:
    agent = Remembers()
    agent.store = MemoryStore()
    return agent


class Changes(list[ConnectionChange]):
    """Records the changes of a connection."""

    def __init__(self) -> None:
        super().__init__()
        self.connected = asyncio.Event()

    def __call__(self, change: ConnectionChange) -> None:
        self.append(change)
        if change.state == "connected":
            self.connected.set()

    @property
    def states(self) -> list[str]:
        return [change.state for change in self]


def _app(agent: Any) -> Any:
    return accord.asgi(agent, insecure=True) if isinstance(agent, Agent) else agent


@asynccontextmanager
async def connected(
    agent: Any,
    changes: Changes | None = None,
    *,
    scheme: str = "ws",
    attempts: int = 5,
    **options: Any,
) -> AsyncGenerator[tuple[accord.ConnectedAgent, TcpProxy]]:
    settings = Reconnect(attempts=attempts, wait_s=0.01, max_wait_s=0.05, on_change=changes)
    async with (
        hypercorn(_app(agent)) as address,
        tcp_proxy(address) as (proxy, url),
        accord.connect(f"{scheme}://{url}", reconnect=settings, **options) as client,
    ):
        yield client, proxy


async def ask(session: accord.ClientSession, text: str = "hello") -> list[Any]:
    async with session.prompt(text) as turn:
        return [event async for event in turn]


@requirement("R-WS-17")
@EVERYWHERE
async def test_session_continues_after_a_cut_between_turns(version: int, scheme: str) -> None:
    changes = Changes()
    async with connected(remembering(), changes, scheme=scheme, versions=only(version)) as both:
        client, proxy = both
        session = await client.new_session("/")
        await ask(session)
        items = list(session.transcript.items)
        proxy.cut()
        await changes.connected.wait()
        assert session.transcript.items == items
        await ask(session)
        assert session.transcript.text.count("Done") == 2
        assert changes.states == ["reconnecting", "connected"]


@requirement("R-WS-17")
@EVERYWHERE
async def test_interrupted_turn_ends_with_what_is_known(version: int, scheme: str) -> None:
    agent: Any = remembering()
    async with connected(agent, scheme=scheme, versions=only(version)) as (client, proxy):
        session = await client.new_session("/")
        await ask(session)
        texts: list[str] = []
        turn = session.prompt("hold")
        async with turn:
            await agent.reached.wait()
            proxy.cut()
            with suppress(accord.TurnInterrupted):
                async for event in turn:
                    if isinstance(event, accord.Text):
                        texts.append(event.text)  # noqa: PERF401  # an error ends it
        assert isinstance(turn.error, accord.TurnInterrupted)
        assert ("code 1006" if scheme == "ws" else "cut") in str(turn.error)
        assert "".join(texts) == "before "
        assert turn.error.in_history is True
        assert turn.error.agent_works is (None if version == 1 else False)
        assert session.transcript.state is not None
        assert session.transcript.state.state == "idle"
        before = list(session.transcript.items)
        await ask(session)
        assert session.transcript.items[: len(before)] == before


@EVERYWHERE
async def test_permission_request_is_cancelled_with_the_connection(
    version: int, scheme: str
) -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    async def permissions(_request: accord.PermissionRequest) -> str:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            answered.set()
        return "allow"

    options: Any = {"permissions": permissions, "versions": only(version), "scheme": scheme}
    async with connected(remembering(), **options) as (client, proxy):
        session = await client.new_session("/")
        turn = session.prompt("permit")
        async with turn:
            await asked.wait()
            proxy.cut()
            with pytest.raises(accord.TurnInterrupted):
                await turn.wait()
        assert answered.is_set()
        [call] = session.transcript.tool_calls
        assert call.is_final


@requirement("R-WS-17")
@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_cookies_of_the_server_are_kept(scheme: str) -> None:
    agent = remembering()
    app = accord.asgi(agent, insecure=True)
    cookies: list[bytes] = []

    async def with_cookie(scope: Any, receive: Any, send: Any) -> None:
        cookies.append(dict(scope["headers"]).get(b"cookie", b""))

        async def sending(event: Any) -> None:
            if event["type"] in ("websocket.accept", "http.response.start"):
                event["headers"] = [*event.get("headers", ()), (b"set-cookie", b"server=7")]
            await send(event)

        await app(scope, receive, sending)

    changes = Changes()
    async with connected(with_cookie, changes, scheme=scheme) as (client, proxy):
        await client.new_session("/")
        proxy.cut()
        await changes.connected.wait()
    assert cookies[0] == b""
    assert set(cookies[1:]) == {b"server=7"}
