"""What could hang or leak in a chain: room, concurrent forwards, handlers and ends that fail."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from accord import Proxy, ProxyTurn, chain, component, v1
from accord.proxy.conductor import conduct
from accord.proxy.handlers import ProxyStage, TypedStage
from accord.proxy.stage import PassingLanes, Release
from accord.testing import Recorder
from accord.transports.base import Transport
from accord.transports.memory import ServedTransport, pair
from client.wire_agents import BOTH
from proxy.conversation import conversation

LARGE = "x" * 3 * 1024 * 1024  # more than may wait for a handler


class Says(Proxy):
    """Says something when the turn of the agent has ended."""

    async def prompt(self, turn: ProxyTurn, forward: Any) -> Any:
        reason = await forward()
        await turn.say("That was all.")
        return reason


@BOTH
async def test_what_waits_for_a_handler_does_not_keep_it_from_speaking(version: int) -> None:
    """The agent sends much behind the end of its turn, which waits for `Proxy.prompt`."""
    async with asyncio.timeout(6), conversation(Says().stage(), version=version) as talk:
        talk.prompt()
        asked = await talk.agent_gets()
        await talk.end_turn(asked)
        talk.text(LARGE)
        assert await talk.turn_ended() == "end_turn"
        frames = [bytes(one) for one in talk.ends.at_client.frames]
        assert any(b"That was all." in one for one in frames)
        await talk.ends.at_client.until(lambda: LARGE[:99] in str(talk.ends.at_client.frames[-1]))


class Twice(v1.Proxy):
    """Sends each prompt on twice, at the same time."""

    async def prompt(self, params: Any, forward: Any) -> Any:
        first, _second = await asyncio.gather(forward(params), forward(params))
        return first

    async def list_sessions(self, params: Any, forward: Any) -> Any:
        first, _second = await asyncio.gather(forward(params), forward(params))
        return first


async def test_a_handler_may_forward_twice_at_the_same_time() -> None:
    async with asyncio.timeout(6), conversation(TypedStage(Twice())) as talk:
        talk.prompt()
        asked = [await talk.agent_gets() for _ in range(2)]
        talk.agent_answers(asked[0], {"stopReason": "end_turn"})
        talk.text("between")
        talk.agent_answers(asked[1], {"stopReason": "max_tokens"})
        talk.text("after")
        assert "between" in json.dumps(await talk.client_gets())
        assert (await talk.client_gets())["result"]["stopReason"] == "end_turn"
        assert "after" in json.dumps(await talk.client_gets())
        talk.ask_agent("session/list", {})
        asked = [await talk.agent_gets() for _ in range(2)]
        for one in asked:
            talk.agent_answers(one, {"sessions": []})
        talk.text("last")
        assert (await talk.client_gets())["result"] == {"sessions": []}
        assert "last" in json.dumps(await talk.client_gets())


def test_a_message_that_cannot_be_handled_does_not_hold_its_lane(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handled: list[str] = []
    lanes = PassingLanes(lambda _: None)
    released: list[Release] = []

    def hold(release: Release) -> bool:
        released.append(release)
        return True

    def fail(_: Release) -> bool:
        raise RuntimeError("cannot be handled")

    def handle(name: str) -> Any:
        def run(_: Release) -> bool:
            handled.append(name)
            return False

        return run

    for key in ("s", None):
        lanes.submit("s", 1, hold)
        lanes.submit(key, 1, fail, gates=key is None)
        lanes.submit("s", 1, handle("later"))
        released.pop()()
        lanes.submit("s", 1, handle("last"))
        assert handled == ["later", "last"]
        handled.clear()
        assert lanes.are_free
        assert "could not be handled" in caplog.messages[-1]


async def test_every_part_of_a_stage_is_closed_even_if_one_cannot_be() -> None:
    closed: list[str] = []

    async def fail() -> None:
        raise RuntimeError("cannot be closed")

    async def close() -> None:
        closed.append("second")

    stage = Says().stage()
    assert isinstance(stage, ProxyStage)
    stage.on_close += [fail, close]
    with pytest.raises(RuntimeError):
        await stage.aclose()
    assert closed == ["second"]


async def test_a_chain_that_is_cancelled_while_it_fails_to_start_closes_its_components() -> None:
    """One component cannot be started, and another one takes its time to be closed."""
    is_closing, may_close = asyncio.Event(), asyncio.Event()
    closed: list[str] = []

    class Slow(ServedTransport):
        async def aclose(self) -> None:
            is_closing.set()
            await may_close.wait()
            await super().aclose()
            closed.append("slow")

    async def ignore(_: Transport) -> None:
        """End at once."""

    parts = chain(component(lambda: Slow(ignore), name="slow"), "does-not-exist-12")
    client, there = pair()
    await client.start(Recorder())
    async with asyncio.timeout(20):
        conducting = asyncio.ensure_future(conduct(parts.components, there))
        message = {"id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
        client.write([json.dumps({"jsonrpc": "2.0", **message}).encode()])
        await is_closing.wait()
        conducting.cancel()
        for _ in range(50):
            await asyncio.sleep(0)
        may_close.set()
        await asyncio.wait([conducting])
        await client.aclose()
    assert closed == ["slow"]
