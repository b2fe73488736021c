"""Process and stdio transports fulfil the contract, with an agent that relays to the test."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from accord.errors import ConnectionClosed
from accord.testing import TransportContract
from accord.transports.base import Frame, Receiver, Transport
from accord.transports.process import process
from accord.transports.stdio import PipeTransport
from requirement import requirement

RELAY = Path(__file__).parent / "programs" / "relay.py"


class Accepted(Transport):
    """The transport to the first client of a socket."""

    def __init__(self, listener: socket.socket, frame_bytes: int) -> None:
        self.listener = listener
        self.frame_bytes = frame_bytes
        self.way: PipeTransport | None = None

    async def start(self, receiver: Receiver) -> None:
        if self.listener.fileno() < 0:
            raise ConnectionClosed
        # Only the start waits for the other process here.
        connection, _ = await asyncio.get_running_loop().run_in_executor(None, self.listener.accept)
        fd = connection.detach()
        self.way = PipeTransport(fd, fd, frame_bytes=self.frame_bytes)
        await self.way.start(receiver)

    def write(self, frames: Sequence[Frame]) -> None:
        if self.way is not None:
            self.way.write(frames)

    @property
    def congested(self) -> bool:
        return self.way is not None and self.way.congested

    def pause_reading(self) -> None:
        if self.way is not None:
            self.way.pause_reading()

    def resume_reading(self) -> None:
        if self.way is not None:
            self.way.resume_reading()

    async def aclose(self) -> None:
        self.listener.close()
        if self.way is not None:
            await self.way.aclose()


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        yield listener


@requirement("R-STDIO-02")
@pytest.mark.usefixtures("closing_is_quick")
class TestProcess(TransportContract):
    """The other loops differ in pipes, and in the start and the end of processes."""

    loops = ("asyncio",)  # test_pipes.py and test_process.py have all of them

    @pytest.fixture(autouse=True)
    def _listen(self, listener: socket.socket) -> None:
        self.listener = listener

    async def pair(self, frame_bytes: int) -> tuple[Transport, Transport]:
        start = process(
            sys.executable,
            str(RELAY),
            self.listener.getsockname(),
            frame_bytes=frame_bytes,
            stop_times_s=(1.0, 1.0, 1.0),
        )
        return start(), Accepted(self.listener, frame_bytes)
