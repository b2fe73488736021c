"""Frames are passed on in parts, in order, and nothing is read while some wait."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from accord.transports.base import Frame, NullReceiver, Receiver, Transport
from accord_inspector.inspected_transport import PacedTransport


class Inner(Transport):
    """A transport that the test reads for."""

    def __init__(self) -> None:
        self.receiver: Receiver = NullReceiver()
        self.is_reading = True
        self.written: list[Frame] = []

    async def start(self, receiver: Receiver) -> None:
        self.receiver = receiver

    def write(self, frames: Sequence[Frame]) -> None:
        self.written += frames

    @property
    def congested(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    async def aclose(self) -> None:
        pass


class Taken(NullReceiver):
    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.ended_at: int | None = None

    def frames_received(self, frames: Sequence[Frame]) -> None:
        self.frames += frames

    def eof_received(self, error: Exception | None) -> None:
        self.ended_at = len(self.frames)


FRAMES: list[Frame] = [b"%d" % n for n in range(1000)]


@pytest.fixture(autouse=True)
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every part take the time that one may take."""
    monkeypatch.setattr("accord_inspector.inspected_transport._PART_S", 0.0)


async def started() -> tuple[Inner, PacedTransport, Taken]:
    inner, taken = Inner(), Taken()
    paced = PacedTransport(inner)
    await paced.start(taken)
    return inner, paced, taken


async def until(condition: asyncio.Event) -> None:
    await asyncio.wait_for(condition.wait(), 10)


async def test_other_work_runs_between_the_parts_of_a_read() -> None:
    inner, _, taken = await started()
    inner.receiver.frames_received(FRAMES)
    inner.receiver.eof_received(None)
    assert 0 < len(taken.frames) < len(FRAMES)
    assert not inner.is_reading
    seen: list[int] = []
    while taken.ended_at is None:
        seen.append(len(taken.frames))
        await asyncio.sleep(0)
    assert len(set(seen)) > 10
    assert taken.frames == FRAMES
    assert taken.ended_at == len(FRAMES)
    assert inner.is_reading


async def test_nothing_is_passed_on_while_reading_is_paused() -> None:
    inner, paced, taken = await started()
    inner.receiver.frames_received(FRAMES)
    paced.pause_reading()
    before = len(taken.frames)
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(taken.frames) == before
    paced.resume_reading()
    while len(taken.frames) < len(FRAMES):
        await asyncio.sleep(0)
    assert inner.is_reading


async def test_rest_stops_reading_for_a_time() -> None:
    inner, paced, _ = await started()
    paced.rest(0.01)
    paced.resume_reading()
    assert not inner.is_reading
    rested = asyncio.Event()
    asyncio.get_running_loop().call_later(0.02, rested.set)
    await until(rested)
    assert inner.is_reading


async def test_frames_that_wait_are_dropped_by_close() -> None:
    inner, paced, taken = await started()
    inner.receiver.frames_received(FRAMES)
    before = len(taken.frames)
    await paced.aclose()
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(taken.frames) == before
