"""Messages for a running turn when the network breaks: none is sent twice, or called unsent."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from accord import Agent, ClientSession, MemoryStore, Message, Steered, SteeringMessage, Turn
from accord.client import turn as turn_module
from accord.errors import TransportError, TurnInterrupted
from remote.test_reconnect import Changes, connected
from versions import only

pytestmark = pytest.mark.usefixtures("closing_is_quick")
BOTH = pytest.mark.parametrize("version", [1, 2])


class Holds(Agent):
    """Notes each prompt; `hold` waits for `may_end`."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.heard: list[str] = []
        self.reached: asyncio.Queue[str] = asyncio.Queue()
        self.may_end = asyncio.Event()

    async def prompt(self, turn: Turn) -> None:
        self.heard.append(turn.text)
        await turn.say(f"[{turn.text}]")
        self.reached.put_nowait(turn.text)
        if turn.text.startswith("hold"):
            await self.may_end.wait()


class Steerable(Holds):
    """Takes messages, but the response does not come back before the network breaks."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def steer(self, turn: Turn, message: SteeringMessage) -> None:
        self.heard.append(message.text)
        self.asked.set()


def of_user(session: ClientSession) -> list[str]:
    items = session.transcript.items
    messages = (item for item in items if isinstance(item, Message))
    return [message.text for message in messages if message.role == "user"]


@BOTH
async def test_message_whose_answer_is_lost_is_unconfirmed_and_not_sent_again(version: int) -> None:
    agent, changes = Steerable(), Changes()
    async with connected(agent, changes, versions=only(version)) as (client, proxy):
        session = await client.new_session("/")
        turn = session.prompt("hold")

        async def use() -> None:
            async with turn:
                await agent.reached.get()
                proxy.silence()
                steering = asyncio.create_task(turn.steer("one"))
                await asyncio.sleep(0)
                proxy.hold_requests()
                proxy.cut()
                with pytest.raises(TransportError):
                    await steering
                proxy.resume()
                await turn.wait()

        with pytest.raises(TurnInterrupted):
            await use()
        assert turn.unconfirmed == [("one",)]
        assert turn.unsent == []
        await changes.connected.wait()
        agent.may_end.set()
        async with session.prompt("next") as turn:
            await turn.wait()
    assert agent.heard == ["hold", "next"]


@BOTH
async def test_transcript_has_the_unconfirmed_message_that_the_agent_has(version: int) -> None:
    agent, changes = Steerable(), Changes()
    async with connected(agent, changes, versions=only(version)) as (client, proxy):
        session = await client.new_session("/")
        turn = session.prompt("hold")
        with suppress(TurnInterrupted):
            async with turn:
                await agent.reached.get()

                async def cut() -> None:
                    await agent.asked.wait()
                    proxy.cut()

                # The response can be quicker than the cut.
                steered, _ = await asyncio.gather(turn.steer("one"), cut(), return_exceptions=True)
                await turn.wait()
        assert isinstance(steered, Steered | TransportError)
        assert turn.unconfirmed == ([] if isinstance(steered, Steered) else [("one",)])
        await changes.connected.wait()
        assert of_user(session) == ["hold", "one"]
        assert agent.heard == ["hold", "one"]


@BOTH
async def test_turn_that_ends_before_its_first_step_sends_nothing(version: int) -> None:
    agent = Holds()
    async with connected(agent, versions=only(version)) as (client, _):
        session = await client.new_session("/")
        turn = session.prompt("never")

        async def use() -> None:
            async with turn:
                end = session._stream.on_disconnect
                assert end is not None
                end(TurnInterrupted("The connection was lost"))
                await turn.wait()

        with pytest.raises(TurnInterrupted):
            await use()
        async with session.prompt("next") as following:
            await following.wait()
    assert agent.heard == ["next"]


@BOTH
async def test_message_that_waits_is_left_to_the_caller(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_module, "JOIN_S", 0.01)
    agent, changes = Holds(), Changes()
    async with connected(agent, changes, versions=only(version)) as (client, proxy):
        session = await client.new_session("/")
        turn = session.prompt("hold")

        async def use() -> None:
            async with turn:
                await agent.reached.get()
                first, second = await turn.steer("one"), await turn.steer("two")
                assert (first.by, second.by) == ("client" if version == 1 else "agent", "client")
                proxy.cut()
                await turn.wait()

        with pytest.raises(TurnInterrupted):
            await use()
        # In version 2 the agent may have run the one that it held.
        assert turn.unsent == ([("one",), ("two",)] if version == 1 else [("two",)])
        assert turn.unconfirmed == ([] if version == 1 else [("one",)])
        await changes.connected.wait()
        async with session.prompt("next") as turn:
            await turn.wait()
    assert agent.heard == ["hold", "next"]


async def test_message_that_was_not_in_the_history_is_unsent_again() -> None:
    agent, changes = Holds(), Changes()
    async with connected(agent, changes, versions=only(1)) as (client, proxy):
        session = await client.new_session("/")
        turn = session.prompt("hold")

        async def use() -> None:
            async with turn:
                await agent.reached.get()
                await turn.steer("one")
                proxy.hold_requests()
                agent.may_end.set()
                async for _ in turn:
                    if of_user(session)[-1] == "one":
                        break  # it was sent, and is on its way
                proxy.cut()
                proxy.resume()
                await turn.wait()

        with pytest.raises(TurnInterrupted) as caught:
            await use()
        assert caught.value.in_history is False  # it is about the last prompt
        assert turn.unsent == [("one",)]
        assert turn.unconfirmed == []
    assert agent.heard == ["hold"]


async def test_message_that_the_agent_works_on_is_neither_unsent_nor_unconfirmed() -> None:
    agent, changes = Holds(), Changes()
    async with connected(agent, changes, versions=only(1)) as (client, proxy):
        session = await client.new_session("/")
        turn = session.prompt("hold")

        async def use() -> None:
            async with turn:
                await agent.reached.get()
                await turn.steer("hold on")
                agent.may_end.set()
                agent.may_end = asyncio.Event()
                assert await agent.reached.get() == "hold on"
                proxy.cut()
                await turn.wait()

        with pytest.raises(TurnInterrupted) as caught:
            await use()
        assert caught.value.in_history is True
        assert turn.unsent == turn.unconfirmed == []
    assert agent.heard == ["hold", "hold on"]
