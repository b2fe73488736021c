from __future__ import annotations

import asyncio
import os
import pty
import socket
import time
import tracemalloc
import tty
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from accord.errors import TransportError
from accord.testing import Recorder, TransportContract
from accord.transports.base import Frame, Transport
from accord.transports.stdio import PipeTransport
from requirement import requirement


@pytest.mark.usefixtures("closing_is_quick")
class TestPipes(TransportContract):
    burst = 800

    async def pair(self, frame_bytes: int) -> tuple[Transport, Transport]:
        from_here, to_there = os.pipe()
        from_there, to_here = os.pipe()
        return (
            PipeTransport(from_there, to_there, frame_bytes=frame_bytes),
            PipeTransport(from_here, to_here, frame_bytes=frame_bytes),
        )


@pytest.mark.usefixtures("closing_is_quick")
class TestSockets(TransportContract):
    burst = 800

    async def pair(self, frame_bytes: int) -> tuple[Transport, Transport]:
        here, there = (one.detach() for one in socket.socketpair())
        return (
            PipeTransport(here, here, frame_bytes=frame_bytes),
            PipeTransport(there, there, frame_bytes=frame_bytes),
        )


@asynccontextmanager
async def started(read_fd: int, write_fd: int) -> AsyncIterator[tuple[PipeTransport, Recorder]]:
    transport, heard = PipeTransport(read_fd, write_fd), Recorder()
    try:
        await transport.start(heard)
        yield transport, heard
    finally:
        await transport.aclose()


def null(mode: int) -> int:
    return os.open(os.devnull, mode)


@requirement("R-STDIO-11")
async def test_last_line_without_a_newline_arrives_before_the_end() -> None:
    read_fd, write_fd = os.pipe()
    os.write(write_fd, b'{"a":1}\n{"b":2}')
    os.close(write_fd)
    async with started(read_fd, null(os.O_WRONLY)) as (_, heard):
        await heard.until(lambda: heard.ended)
        assert heard.frames == [b'{"a":1}', b'{"b":2}']
        assert heard.ends == [None]


async def test_regular_files_can_be_read_and_written(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b'{"a":1}\n{"b":2}')
    read_fd = os.open(tmp_path / "in", os.O_RDONLY)
    write_fd = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    async with started(read_fd, write_fd) as (transport, heard):
        await heard.until(lambda: heard.ended)
        transport.write(heard.frames)
    assert heard.frames == [b'{"a":1}', b'{"b":2}']
    assert (tmp_path / "out").read_bytes() == b'{"a":1}\n{"b":2}\n'


async def test_large_regular_file_is_read_completely_despite_pauses(tmp_path: Path) -> None:
    frames = [b"%06d" % number for number in range(100_000)]
    (tmp_path / "in").write_bytes(b"\n".join(frames))
    async with started(os.open(tmp_path / "in", os.O_RDONLY), null(os.O_WRONLY)) as (way, heard):
        while not heard.ended:
            way.pause_reading()
            count = len(heard.frames)
            way.resume_reading()
            await heard.until(lambda count=count: heard.ended or len(heard.frames) > count)
        assert heard.frames == frames


async def test_dev_null_can_be_read_from_and_written_to() -> None:
    async with started(null(os.O_RDONLY), null(os.O_WRONLY)) as (transport, heard):
        transport.write([b"x" * 1_000_000])
        await heard.until(lambda: heard.ended)
        assert heard.ends == [None]


async def test_output_of_a_peer_that_stops_reading_is_received(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("accord.transports.stdio.LINGER_S", 0.05)
    read_fd, to_here = os.pipe()
    from_here, write_fd = os.pipe()
    os.close(from_here)
    async with started(read_fd, write_fd) as (transport, heard):
        transport.write([b"{}"])
        await heard.until(lambda: heard.writable_calls > 0)
        os.write(to_here, b"last words\n")
        await heard.until(lambda: heard.ended)
        assert heard.frames == [b"last words"]
        assert str(heard.ends[0]) == "The peer stopped reading"
        transport.write([b"{}"])
        assert not transport.congested
    os.close(to_here)


async def test_peer_that_stops_reading_ends_the_congestion_without_delay() -> None:
    read_fd, to_here = os.pipe()
    from_here, write_fd = os.pipe()
    async with started(read_fd, write_fd) as (transport, heard):
        while not transport.congested:
            transport.write([b"x" * 10_000])
        os.close(from_here)
        busy_s = time.process_time()
        await heard.until(lambda: heard.ended)
        # It used to wait for a second: with many calls that adds up.
        assert time.process_time() - busy_s < 0.3
        assert not transport.congested
    os.close(to_here)


async def test_missing_pipe_is_a_transport_error() -> None:
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    transport = PipeTransport(read_fd, write_fd)
    with pytest.raises(TransportError, match="Bad file descriptor"):
        await transport.start(Recorder())
    await transport.aclose()


async def test_pipes_have_their_old_settings_after_close() -> None:
    read_fd, to_here = os.pipe()
    from_here, write_fd = os.pipe()
    shared = os.dup(read_fd), os.dup(write_fd)
    async with started(read_fd, write_fd):
        pass
    assert all(os.get_blocking(fd) for fd in shared)
    for fd in (*shared, to_here, from_here):
        os.close(fd)


async def test_terminal_can_be_used_without_changing_it() -> None:
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    async with started(os.dup(theirs), os.dup(theirs)) as (transport, heard):
        os.write(ours, b'{"a":1}\n')
        await heard.until(lambda: bool(heard.frames))
        assert os.get_blocking(theirs)
        transport.write([b'{"b":2}'])
        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(None, os.read, ours, 100) == b'{"b":2}\n'
    assert os.get_blocking(theirs)
    os.close(ours)
    os.close(theirs)


async def test_memory_of_a_large_frame_is_released() -> None:
    read_fd, to_here = os.pipe()
    from_here, write_fd = os.pipe()
    sizes: list[int] = []

    class Measure(Recorder):
        def frames_received(self, frames: Sequence[Frame]) -> None:
            sizes.append(sum(map(len, frames)))
            super().frames_received([b""])

    heard = Measure()
    here, there = PipeTransport(read_fd, write_fd), PipeTransport(from_here, to_here)
    await here.start(heard)
    await there.start(Recorder())
    tracemalloc.start()
    there.write([b"x" * 20_000_000])
    await heard.until(lambda: bool(sizes))
    left, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    await here.aclose()
    await there.aclose()
    assert sizes == [20_000_000]
    assert left < 1_000_000
