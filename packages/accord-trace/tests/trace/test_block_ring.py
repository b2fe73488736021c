"""The memory in which blocks wait for the recorder, and who reads it when."""

from __future__ import annotations

import os
import random
import sys
import threading
from collections import deque
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

if sys.platform != "linux":
    pytest.skip("memory of Linux", allow_module_level=True)

from accord_trace.ring import HURRY, WAKE, Block, BlockRing, RingReader

DATA = bytes(range(256)) * 256
ROOM = 64 * 1024 * 1024


@pytest.fixture
def ends() -> Iterator[tuple[BlockRing, BlockRing]]:
    writer = BlockRing()
    yield writer, BlockRing(os.dup(writer.fd))
    os.close(writer.fd)


def test_blocks_arrive_in_order_and_unchanged(ends: tuple[BlockRing, BlockRing]) -> None:
    writer, reader = ends
    sent = [(number % 2, number / 8, DATA[:number]) for number in range(300)]
    assert all(writer.write(*block) for block in sent)
    found = []
    while blocks := reader.blocks(1000):
        found += blocks
        reader.release()
    assert found == sent
    assert reader.waiting_bytes == 0


def test_full_ring_takes_nothing_and_goes_on_at_its_start(
    ends: tuple[BlockRing, BlockRing],
) -> None:
    writer, reader = ends
    written = read = 0
    for _ in range(3):
        while writer.write(0, float(written), DATA):
            written += 1
        assert writer.waiting_bytes > ROOM - 2 * len(DATA)
        assert writer.is_more_than_half_full
        while reader.waiting_bytes > ROOM // 3:
            for direction, time, data in reader.blocks(len(DATA)):
                assert (direction, time, data) == (0, float(read), DATA)
                read += 1
            reader.release()
        assert not writer.is_more_than_half_full
    assert written > ROOM // len(DATA)


@pytest.mark.parametrize("seed", range(2))
def test_blocks_of_any_size_pass_a_reader_of_any_speed(
    ends: tuple[BlockRing, BlockRing], seed: int
) -> None:
    writer, reader = ends
    chances = random.Random(seed)
    data = chances.randbytes(3 * 1024 * 1024)
    waiting: deque[Block] = deque()
    for number in range(400):
        size = chances.choice((0, 1, 100, 70_000, 1_000_000, len(data)))
        start = chances.randrange(len(data) - size + 1)
        block = (number % 2, float(number), data[start : start + size])
        if writer.write(*block):
            waiting.append(block)
        else:
            assert writer.waiting_bytes + 2 * len(data) > ROOM
        if chances.random() < 0.4:
            for found in reader.blocks(chances.choice((1, 100_000, 4_000_000, ROOM))):
                assert found == waiting.popleft()
            reader.release()
    assert reader.blocks(ROOM) == [*waiting]


def test_what_is_not_released_is_not_overwritten(ends: tuple[BlockRing, BlockRing]) -> None:
    writer, reader = ends
    while writer.write(0, 0.0, DATA):
        pass
    assert reader.blocks(ROOM)
    assert not writer.write(0, 0.0, DATA)
    reader.release()
    assert writer.write(0, 1.0, DATA)
    assert reader.blocks(1) == [(0, 1.0, DATA)]


def test_pages_are_used_again_while_the_reader_keeps_up(
    ends: tuple[BlockRing, BlockRing],
) -> None:
    writer, reader = ends
    for number in range(2 * ROOM // len(DATA)):
        assert writer.write(1, float(number), DATA)
        assert reader.blocks(ROOM) == [(1, float(number), DATA)]
        reader.release()
    used = os.fstat(writer.fd).st_blocks * 512
    assert used < 4 * 1024 * 1024


def test_sleeping_reader_is_told_once(ends: tuple[BlockRing, BlockRing]) -> None:
    writer, reader = ends
    assert not writer.is_asleep()
    assert reader.fall_asleep()
    assert writer.write(0, 0.0, b"x")
    assert writer.is_asleep()
    assert not writer.is_asleep()
    assert not reader.fall_asleep()
    assert not writer.is_asleep()


class Reading:
    """A reader in a thread; `found` has the policy of the thread that recorded, and the blocks."""

    def __init__(self, ring: BlockRing, signals: bytes = b"") -> None:
        self.found: SimpleQueue[tuple[int, list[Block]]] = SimpleQueue()
        self._read, self.signals = os.pipe()
        os.write(self.signals, signals)
        reader = RingReader(ring, self._record)
        self._thread = threading.Thread(target=reader.run, args=(self._read,))
        self._thread.start()

    def _record(self, blocks: list[Block]) -> None:
        self.found.put((os.sched_getscheduler(0), blocks))

    def end(self) -> None:
        os.close(self.signals)
        self._thread.join(30)
        assert not self._thread.is_alive()
        os.close(self._read)


def test_reader_waits_until_a_processor_is_idle(ends: tuple[BlockRing, BlockRing]) -> None:
    writer, ring = ends
    reading = Reading(ring)
    for number in range(3):
        assert writer.write(0, float(number), b"x")
        if writer.is_asleep():
            os.write(reading.signals, WAKE)
        assert reading.found.get(timeout=30) == (os.SCHED_IDLE, [(0, float(number), b"x")])
    reading.end()


def test_reader_of_a_ring_that_fills_does_not_wait(
    ends: tuple[BlockRing, BlockRing], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, ring = ends
    while not writer.is_more_than_half_full:
        assert writer.write(0, 0.0, DATA)
    # The thread that reads when a processor is idle never gets one.
    monkeypatch.setattr(os, "sched_setscheduler", lambda *_: threading.Event().wait())
    reading = Reading(ring, HURRY)
    policies = {reading.found.get(timeout=30)[0]}
    reading.end()
    while not reading.found.empty():
        policies.add(reading.found.get()[0])
    assert policies == {os.SCHED_OTHER}
    assert ring.waiting_bytes == 0
