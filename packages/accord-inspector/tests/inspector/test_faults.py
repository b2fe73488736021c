"""What each fault does to the messages of a connection, over real pipes."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from accord.errors import ConnectionLost
from accord.testing import Recorder, TransportContract
from accord.transports.base import HIGH_BYTES, Frame, Transport
from accord.transports.stdio import PipeTransport
from accord_inspector.faults import Fault, Faults
from accord_inspector.inspected_transport import FaultyTransport
from accord_trace.records import Direction


def pipes(frame_bytes: int = 1 << 20) -> tuple[PipeTransport, PipeTransport]:
    here_reads, there_writes = os.pipe()
    there_reads, here_writes = os.pipe()
    return (
        PipeTransport(here_reads, here_writes, frame_bytes=frame_bytes),
        PipeTransport(there_reads, there_writes, frame_bytes=frame_bytes),
    )


def frame(number: int, method: str = "m", size: int = 0) -> bytes:
    message = {"jsonrpc": "2.0", "id": number, "method": method}
    return json.dumps(message | ({"params": "x" * size} if size else {})).encode()


def response(number: int) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": {}}).encode()


class World:
    """A client, faults, and an agent at the other ends of two pipes."""

    def __init__(self) -> None:
        self.changes = 0
        self.faults = Faults(self._changed)
        inner, self.agent = pipes()
        self.observed: list[tuple[Direction, bytes]] = []
        self.client = FaultyTransport(inner, self.faults, self._observe)
        self.heard = Recorder()  # by the client
        self.agent_heard = Recorder()

    def _changed(self) -> None:
        self.changes += 1

    def _observe(self, direction: Direction, frames: Sequence[Frame]) -> int:
        first = len(self.observed)
        self.observed.extend((direction, bytes(frame)) for frame in frames)
        return first

    def add(self, **fields: object) -> int:
        return self.faults.add(Fault(**fields)).id  # type: ignore[arg-type]

    async def agent_hears(self, count: int) -> list[bytes]:
        await self.agent_heard.until(lambda: len(self.agent_heard.frames) >= count)
        return self.agent_heard.frames

    async def hears(self, count: int) -> list[bytes]:
        await self.heard.until(lambda: len(self.heard.frames) >= count)
        return self.heard.frames


@asynccontextmanager
async def started() -> AsyncIterator[World]:
    world = World()
    try:
        async with asyncio.timeout(10):
            await world.client.start(world.heard)
            await world.agent.start(world.agent_heard)
            yield world
    finally:
        async with asyncio.timeout(10):
            await world.client.aclose()
            await world.agent.aclose()


@pytest.fixture(autouse=True)
def closing_is_quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait long for a peer that does not read; one that reads may be slow."""
    if "before_the_close" in request.node.name:
        return
    monkeypatch.setattr("accord.transports.stdio.FLUSH_S", 0.1)
    monkeypatch.setattr("accord.transports.stdio.LINGER_S", 0.1)


class TestFaultyTransport(TransportContract):
    async def pair(self, frame_bytes: int) -> tuple[Transport, Transport]:
        here, there = pipes(frame_bytes)
        return FaultyTransport(here, Faults(), lambda _direction, _frames: None), there


class TestDelayedToTheEnd(TransportContract):
    """A fault that is on, and does nothing that the contract forbids."""

    burst = 500

    async def pair(self, frame_bytes: int) -> tuple[Transport, Transport]:
        here, there = pipes(frame_bytes)
        faults = Faults()
        faults.add(Fault(kind="delay", delay_ms=0, direction="to_agent"))
        faults.add(Fault(kind="slow", delay_ms=0, direction="to_client", method="none/*"))
        return FaultyTransport(here, faults, lambda _direction, _frames: None), there


async def test_every_third_message_is_dropped_and_counted_and_marked() -> None:
    async with started() as world:
        number = world.add(kind="drop", direction="to_agent", every=3)
        world.client.write([frame(n) for n in range(7)])
        assert await world.agent_hears(5) == [frame(n) for n in (0, 1, 3, 4, 6)]
        (active,) = world.faults.active
        assert (active.id, active.messages, active.bytes) == (number, 2, 2 * len(frame(2)))
        assert world.faults.marks == {2: "dropped", 5: "dropped"}
        # The recording has what the client has sent.
        assert len(world.observed) == 7


async def test_only_the_chosen_method_and_responses_to_it_are_dropped() -> None:
    async with started() as world:
        world.add(kind="drop", direction="to_client", method="session/p*")
        world.client.write([frame(1, "session/new"), frame(2, "session/prompt")])
        await world.agent_hears(2)
        world.agent.write([response(2), response(1), frame(9, "session/prompt")])
        world.agent.write([frame(9, "fs/read_text_file")])
        assert await world.hears(2) == [response(1), frame(9, "fs/read_text_file")]


async def test_the_same_seed_drops_the_same_messages() -> None:
    runs: list[list[bytes]] = []
    for _ in range(2):
        async with started() as world:
            world.add(kind="drop", direction="to_agent", probability=0.5, seed=7)
            world.client.write([frame(n) for n in range(40)])
            world.faults.all_off()
            world.client.write([b"{}"])
            await world.agent_heard.until(lambda: world.agent_heard.frames[-1:] == [b"{}"])
            runs.append(world.agent_heard.frames)
    assert runs[0] == runs[1]
    assert 10 < len(runs[0]) < 31


async def test_a_fault_for_one_message_switches_itself_off() -> None:
    async with started() as world:
        world.add(kind="duplicate", direction="to_agent", times=1)
        world.client.write([frame(1), frame(2)])
        assert await world.agent_hears(3) == [frame(1), frame(1), frame(2)]
        assert not world.faults.active[0].is_on
        assert world.faults.state()["on"] == 0


async def test_delayed_messages_stay_in_order_and_arrive_after_the_delay() -> None:
    async with started() as world:
        loop = asyncio.get_running_loop()
        world.add(kind="delay", direction="to_agent", delay_ms=80, method="slow")
        began = loop.time()
        world.client.write([frame(1, "slow"), frame(2, "quick")])
        assert await world.agent_hears(2) == [frame(1, "slow"), frame(2, "quick")]
        assert loop.time() - began >= 0.08
        assert world.faults.marks == {0: "delayed"}


async def test_switching_a_delay_off_delivers_what_waits() -> None:
    async with started() as world:
        number = world.add(kind="delay", direction="to_agent", delay_ms=3_600_000)
        world.client.write([frame(1)])
        world.client.write([frame(2)])
        world.faults.switch(number, on=False)
        world.client.write([frame(3)])
        assert await world.agent_hears(3) == [frame(1), frame(2), frame(3)]


async def test_a_delay_of_one_message_does_not_hasten_earlier_ones() -> None:
    async with started() as world:
        loop = asyncio.get_running_loop()
        world.add(kind="delay", direction="to_agent", delay_ms=80, times=2)
        began = loop.time()
        world.client.write([frame(1), frame(2), frame(3)])
        await world.agent_hears(1)
        assert loop.time() - began >= 0.08


async def test_a_slow_connection_takes_time_for_each_message_and_byte() -> None:
    async with started() as world:
        loop = asyncio.get_running_loop()
        world.add(kind="slow", direction="to_agent", delay_ms=20, bytes_per_s=10_000)
        frames = [frame(n, size=400) for n in range(3)]
        began = loop.time()
        world.client.write(frames)
        assert await world.agent_hears(3) == frames
        assert loop.time() - began >= 3 * 0.02 + sum(map(len, frames)) / 10_000


async def test_a_reordered_message_arrives_after_the_next_one() -> None:
    async with started() as world:
        world.add(kind="reorder", direction="to_agent", times=1)
        world.client.write([frame(1), frame(2), frame(3)])
        assert await world.agent_hears(3) == [frame(2), frame(1), frame(3)]


async def test_a_reordered_message_without_a_next_one_arrives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("accord_inspector.faults.REORDER_S", 0.01)
    async with started() as world:
        world.add(kind="reorder", direction="to_agent", times=1)
        world.client.write([frame(1)])
        assert await world.agent_hears(1) == [frame(1)]


@pytest.mark.parametrize("corruption", ["truncated", "garbled", "not_json"])
async def test_a_corrupted_message_arrives_changed_and_alone(corruption: str) -> None:
    async with started() as world:
        world.add(kind="corrupt", direction="to_agent", times=1, corruption=corruption)
        world.client.write([frame(1, size=100), frame(2)])
        first, second = await world.agent_hears(2)
        assert first != frame(1, size=100)
        assert second == frame(2)
        assert world.faults.marks == {0: "corrupted"}


async def test_a_frozen_direction_stops_its_source_and_continues() -> None:
    async with started() as world:
        number = world.add(kind="freeze", direction="to_client")
        big = [frame(n, size=50_000) for n in range(20)]
        world.agent.write(big)  # more than a pipe takes
        assert world.agent.congested
        world.faults.switch(number, on=False)
        assert await world.hears(20) == big


async def test_a_client_is_congested_while_the_agent_is_frozen() -> None:
    async with started() as world:
        world.add(kind="freeze", direction="to_agent")
        assert world.client.congested
        world.client.write([frame(1)])
        world.faults.all_off()
        assert world.heard.writable_calls == 1
        assert not world.client.congested
        assert await world.agent_hears(1) == [frame(1)]


async def test_a_delay_holds_a_bounded_number_of_bytes() -> None:
    async with started() as world:
        world.add(kind="delay", direction="to_client", delay_ms=3_600_000)
        frames = [frame(n, size=10_000) for n in range(200)]
        world.agent.write(frames)
        while len(world.observed) * 10_000 < HIGH_BYTES:
            await asyncio.sleep(0)
        assert world.agent.congested
        assert sum(len(data) for _, data in world.observed) < HIGH_BYTES + 200_000
        world.faults.all_off()
        assert await world.hears(200) == frames


async def test_a_cut_ends_the_connection_for_both_sides_at_once() -> None:
    async with started() as world:
        world.add(kind="cut")
        await world.heard.until(lambda: world.heard.ended)
        (error,) = world.heard.ends
        assert isinstance(error, ConnectionLost)
        assert "The inspector has cut the connection" in str(error)
        await world.agent_heard.until(lambda: world.agent_heard.ended)
        assert not world.faults.active[0].is_on


async def test_a_cut_at_a_message_drops_it_and_those_after_it() -> None:
    async with started() as world:
        world.add(kind="cut", direction="to_agent", method="session/prompt")
        world.client.write([frame(1, "session/new"), frame(2, "session/prompt"), frame(3)])
        await world.agent_heard.until(lambda: world.agent_heard.ended)
        assert world.agent_heard.frames == [frame(1, "session/new")]
        assert world.faults.marks == {1: "the connection was cut"}


async def test_the_end_of_the_agent_comes_after_delayed_messages() -> None:
    async with started() as world:
        world.add(kind="delay", direction="to_client", delay_ms=30)
        world.agent.write([frame(1)])
        await world.agent.aclose()
        await world.heard.until(lambda: world.heard.ended)
        assert world.heard.frames == [frame(1)]


async def test_close_does_not_wait_for_frozen_and_delayed_messages() -> None:
    async with started() as world:
        world.add(kind="freeze", direction="to_client")
        world.add(kind="delay", direction="to_agent", delay_ms=3_600_000)
        world.client.write([frame(1)])
        world.agent.write([frame(2)])
        async with asyncio.timeout(2):
            await world.client.aclose()
        assert not world.heard.frames


async def test_messages_as_if_from_the_agent_reach_the_client() -> None:
    async with started() as world:
        world.client.send("to_client", [frame(5)])
        assert await world.hears(1) == [frame(5)]
        assert world.observed == [("to_client", frame(5))]


def test_the_process_is_suspended_while_such_a_fault_is_on() -> None:
    suspended: list[bool] = []
    faults = Faults(suspend=suspended.append)
    first, second = (faults.add(Fault(kind="suspend")).id for _ in range(2))
    faults.switch(first, on=False)
    faults.remove(second)
    assert suspended == [True, True, True, False]


def test_what_is_impossible_says_why() -> None:
    faults = Faults()
    with pytest.raises(ValueError, match="it does not run here"):
        faults.add(Fault(kind="suspend"))
    with pytest.raises(ValueError, match="freeze concerns every message"):
        faults.add(Fault(kind="freeze", every=2))
    with pytest.raises(LookupError, match="Unknown fault 9"):
        faults.switch(9, on=False)
