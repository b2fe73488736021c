"""Agents behind streamable HTTP, over real sockets: complete turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import accord
from accord import Agent, Turn
from remote.http_peer import LIMIT_S, TOKEN, HttpPeer, http_peer
from remote.servers import hypercorn
from requirement import requirement


class Echo(Agent):
    async def prompt(self, turn: Turn) -> None:
        async with turn.tool("Ask", kind="edit") as call:
            allowed = await call.permission()
        await turn.say(f"{turn.text} {allowed}")


@asynccontextmanager
async def serving(agent: Any = Echo, **options: Any) -> AsyncGenerator[str]:
    app = accord.asgi(agent, **{"token": TOKEN, **options})
    async with hypercorn(app) as address:
        try:
            yield address
        finally:
            await app.drain(0)


@asynccontextmanager
async def client(
    agent: Any = Echo, *, http2: bool = False, **options: Any
) -> AsyncGenerator[HttpPeer]:
    async with serving(agent, **options) as address, http_peer(address, http2=http2) as peer:
        yield peer


def text(update: dict[str, Any]) -> str:
    update = update["params"]["update"]
    return update["content"]["text"] if update["sessionUpdate"] == "agent_message_chunk" else ""


@requirement("R-HTTP-05", "R-HTTP-06", "R-HTTP-12")
@pytest.mark.parametrize("http2", [False, True])
async def test_turn_with_a_permission_request(http2: bool) -> None:
    async with client(http2=http2) as peer:
        assert (await peer.initialize())["result"]["protocolVersion"] == 1
        async with peer.stream() as common:
            session = await peer.new_session(common)
            async with peer.stream(session) as own:
                prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]}
                turn = await peer.request("session/prompt", prompt, session)
                asked = await own.find(method="session/request_permission")
                option = asked["params"]["options"][0]["optionId"]
                chosen = {"outcome": {"outcome": "selected", "optionId": option}}
                assert await peer.answer(asked["id"], chosen, session) == 202
                assert (await own.response_to(turn))["result"]["stopReason"] == "end_turn"
                said = [
                    text(event) for event in own.events if event.get("method") == "session/update"
                ]
                assert "hello True" in "".join(said)
                assert len(common.events) == 1
                assert await peer.delete() == 202
                await own.end()
            await common.end()


@requirement("R-HTTP-47", "R-HTTP-13")
async def test_delete_ends_a_running_turn() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    class Slow(Agent):
        async def prompt(self, turn: Turn) -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

    async with client(Slow) as peer:
        await peer.initialize()
        async with peer.stream() as common:
            session = await peer.new_session(common)
            prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "wait"}]}
            await peer.request("session/prompt", prompt, session)
            async with asyncio.timeout(LIMIT_S):
                await started.wait()
                assert await peer.delete() == 202
                await ended.wait()
                await common.end()
