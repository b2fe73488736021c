"""Process and stdio transports fulfil the contract, with an agent that relays to the test."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from accord.testing import TransportContract
from accord.transports.base import Transport
from accord.transports.process import process
from requirement import requirement
from transports.accepted import Accepted

RELAY = Path(__file__).parent / "programs" / "relay.py"


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
