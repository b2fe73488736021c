"""Faults in a tap, whose lines keep their bytes otherwise."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from accord_inspector.faults import Fault, Faults
from accord_inspector.tap_inspection import ByteDirection, PassedBytes
from accord_trace import open_trace
from accord_trace.recording import Recording


class End:
    """One side: the source and the target at the same time."""

    def __init__(self) -> None:
        self.congested = False
        self.written = b""
        self.is_paused = False

    def write_bytes(self, data: bytes) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


class Tap:
    def __init__(self, recording: Recording) -> None:
        self.faults = Faults()
        self.source, self.target = End(), End()
        self.cuts = 0
        self.written = asyncio.Event()
        self.direction = ByteDirection(
            "to_client",
            self.source,
            self.target,
            recording.hop(),
            self.faults,
            itertools.count(),
            PassedBytes(recording, self.written.set),
            cut=self._cut,
        )

    def _cut(self) -> None:
        self.cuts += 1


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return Recording(tmp_path / "r.acp.jsonl")


async def test_a_fault_begins_at_the_next_line_and_ends_without_a_lost_byte(
    recording: Recording,
) -> None:
    with recording:
        tap = Tap(recording)
        tap.direction.data(b'{"a": 1}\n  {"b"')
        fault = tap.faults.add(Fault(kind="drop", every=2))
        tap.direction.data(b': 2}\n{"c": 3}\n{"d": 4}\n{"e"')
        assert tap.target.written == b'{"a": 1}\n  {"b": 2}\n{"c": 3}\n'
        assert tap.faults.marks == {3: "dropped"}
        tap.faults.switch(fault.id, on=False)
        tap.direction.data(b": 5}\r\n")
        tap.direction.end()
        assert tap.target.written.endswith(b'{"c": 3}\n{"e": 5}\r\n')


async def test_a_frozen_side_is_not_read_until_it_goes_on(recording: Recording) -> None:
    with recording:
        tap = Tap(recording)
        fault = tap.faults.add(Fault(kind="freeze"))
        tap.direction.data(b'{"a": 1}\n')
        assert tap.source.is_paused
        assert tap.target.written == b""
        tap.faults.switch(fault.id, on=False)
        assert not tap.source.is_paused
        assert tap.target.written == b'{"a": 1}\n'


async def test_a_cut_ends_the_agent_and_the_end_delivers_what_waits(recording: Recording) -> None:
    with recording:
        tap = Tap(recording)
        tap.faults.add(Fault(kind="delay", delay_ms=60_000))
        tap.direction.data(b'{"a": 1}\n')
        tap.direction.end()
        assert tap.target.written == b'{"a": 1}\n'
        other = Tap(recording)
        other.faults.add(Fault(kind="cut"))
        assert other.cuts == 1


async def test_what_has_passed_is_recorded_soon_and_before_a_message_by_hand(
    recording: Recording,
) -> None:
    with recording:
        tap = Tap(recording)
        tap.direction.data(b'{"method": "a"}\n{"method": ')
        assert tap.target.written == b'{"method": "a"}\n{"method": '
        await asyncio.wait_for(tap.written.wait(), 10)
        assert [item.method for item in open_trace(recording.path)] == ["a"]
        tap.direction.data(b'"b"}\n')
        assert tap.direction.inject(b'{"method":"c"}') == 2
        assert [item.method for item in open_trace(recording.path)] == ["a", "b", "c"]


async def test_much_that_has_passed_is_recorded_at_once(recording: Recording) -> None:
    with recording:
        tap = Tap(recording)
        tap.direction.data(b'{"method": "%b"}\n' % (b"a" * 200_000))
        assert tap.written.is_set()
