"""A relay passes frames on as they are, and its back-pressure too."""

from __future__ import annotations

import asyncio
import json

from accord.errors import ConnectionLost
from accord.testing import Recorder
from accord.transports.base import HIGH_BYTES, Frame
from accord.transports.memory import MemoryTransport, pair, relay

loops = ("asyncio",)  # it uses nothing in which they differ


class _Between:
    """Two ends, and a relay that connects them."""

    async def __aenter__(self) -> _Between:
        self.here, left = pair()
        right, self.there = pair()
        self.heard_here, self.heard_there = Recorder(), Recorder()
        await self.here.start(self.heard_here)
        await self.there.start(self.heard_there)
        self.left, self.right = left, right
        self.relaying = asyncio.ensure_future(relay(left, right))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.here.aclose()
        await self.there.aclose()
        async with asyncio.timeout(10):
            await self.relaying


async def test_frames_are_passed_on_as_they_are_in_both_directions() -> None:
    odd: list[Frame] = [b'{"a": 1.0,  "b":"\\ud800"}', b"not json", b"{}"]
    async with _Between() as between:
        between.here.write(odd)
        between.there.write([*reversed(odd)])
        await between.heard_there.until(lambda: len(between.heard_there.frames) == 3)
        await between.heard_here.until(lambda: len(between.heard_here.frames) == 3)
        assert between.heard_there.frames == odd
        assert between.heard_here.frames == [*reversed(odd)]


async def test_line_ends_within_a_message_become_spaces() -> None:
    async with _Between() as between:
        between.here.write([b'{\r\n"a":\n1}', b"{}"])
        await between.heard_there.until(lambda: len(between.heard_there.frames) == 2)
        assert between.heard_there.frames == [b'{  "a": 1}', b"{}"]


async def test_end_of_one_side_ends_the_other_after_what_was_sent() -> None:
    async with _Between() as between:
        between.here.write([b"{}"] * 1000)
        await between.here.aclose()
        await between.heard_there.until(lambda: between.heard_there.ended)
        assert len(between.heard_there.frames) == 1000
        async with asyncio.timeout(10):
            assert await between.relaying is None


async def test_reader_that_stops_makes_the_sender_wait() -> None:
    async with _Between() as between:
        between.there.pause_reading()
        frame = b"x" * 10_000
        written = 0
        while not between.here.congested:
            between.here.write([frame])
            written += 1
            await asyncio.sleep(0)
            assert written * len(frame) < 100 * HIGH_BYTES
        between.there.resume_reading()
        await between.heard_there.until(lambda: len(between.heard_there.frames) == written)


async def test_request_that_is_too_large_for_the_other_side_is_answered() -> None:
    async with _Between() as between:
        between.right.frame_bytes = 1000
        request = {"jsonrpc": "2.0", "id": 7, "method": "x", "params": "y" * 2000}
        between.here.write([json.dumps(request).encode(), b"{}"])
        await between.heard_here.until(lambda: bool(between.heard_here.frames))
        answer = json.loads(between.heard_here.frames[0])
        assert (answer["id"], answer["error"]["code"]) == (7, -32600)
        assert between.heard_there.frames == [b"{}"]


async def test_response_that_is_too_large_fails_its_request() -> None:
    async with _Between() as between:
        between.right.frame_bytes = 1000
        response = {"jsonrpc": "2.0", "id": 7, "result": "y" * 2000}
        between.here.write([json.dumps(response).encode()])
        await between.heard_there.until(lambda: bool(between.heard_there.frames))
        answer = json.loads(between.heard_there.frames[0])
        assert (answer["id"], answer["error"]["code"]) == (7, -32603)


async def test_error_of_one_side_is_returned() -> None:
    class Breaking(MemoryTransport):
        pass

    left, here = pair()
    right, there = pair()
    heard = Recorder()
    await here.start(heard)
    await there.start(Recorder())
    relaying = asyncio.ensure_future(relay(left, right))
    await asyncio.sleep(0)
    lost = ConnectionLost("gone")
    await heard.until(lambda: True)
    left._receiver.eof_received(lost)
    async with asyncio.timeout(10):
        assert await relaying is lost
    await there.aclose()
    await here.aclose()
