from __future__ import annotations

import asyncio

from accord.testing import Recorder, TransportContract
from accord.transports.base import Transport
from accord.transports.memory import ServedTransport, pair

loops = ("asyncio",)  # it uses nothing in which they differ


class TestMemory(TransportContract):
    async def pair(self, frame_bytes: int) -> tuple[Transport, Transport]:
        return pair(frame_bytes=frame_bytes)


async def test_frames_arrive_in_a_later_iteration_of_the_loop() -> None:
    here, there = pair()
    heard = Recorder()
    await there.start(heard)
    here.write([b"{}"])
    assert not heard.frames
    await heard.until(lambda: heard.frames == [b"{}"])


async def test_frames_written_before_the_peer_starts_wait_for_it() -> None:
    here, there = pair()
    here.write([b"1"])
    await here.aclose()
    heard = Recorder()
    await there.start(heard)
    await heard.until(lambda: heard.ended)
    assert heard.frames == [b"1"]


async def test_congestion_begins_above_the_limit_and_ends_when_the_peer_has_read() -> None:
    here, there = pair(limit_bytes=10)
    heard_here, heard_there = Recorder(), Recorder()
    await here.start(heard_here)
    await there.start(heard_there)
    here.write([b"x" * 10])
    assert not here.congested
    here.write([b"x"])
    assert here.congested
    assert not heard_here.writable_calls
    await heard_here.until(lambda: heard_here.writable_calls == 1)
    assert not here.congested


async def test_congestion_ends_when_the_peer_closes() -> None:
    here, there = pair(limit_bytes=10)
    heard = Recorder()
    await here.start(heard)
    here.write([b"x" * 11])
    await there.aclose()
    await heard.until(lambda: heard.writable_calls == 1)
    assert not here.congested


async def test_frames_of_a_served_peer_wait_while_reading_is_paused() -> None:
    wrote, may_end = asyncio.Event(), asyncio.Event()

    async def serve(there: Transport) -> None:
        await there.start(Recorder())
        there.write([b"1"])
        wrote.set()
        await may_end.wait()

    here, heard = ServedTransport(serve), Recorder()
    await here.start(heard)
    here.pause_reading()
    await wrote.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not heard.frames
    here.resume_reading()
    await heard.until(lambda: heard.frames == [b"1"])
    may_end.set()
    await here.aclose()
