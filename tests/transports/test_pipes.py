from __future__ import annotations

import os
import socket

import pytest

from accord.testing import TransportContract
from accord.transports.base import Transport
from accord.transports.pipes import PipeTransport


@pytest.mark.usefixtures("closing_is_quick")
class TestPipes(TransportContract):
    async def pair(self, frame_bytes: int) -> tuple[Transport, Transport]:
        from_here, to_there = os.pipe()
        from_there, to_here = os.pipe()
        return (
            PipeTransport(from_there, to_there, frame_bytes=frame_bytes),
            PipeTransport(from_here, to_here, frame_bytes=frame_bytes),
        )


@pytest.mark.usefixtures("closing_is_quick")
class TestSockets(TransportContract):
    async def pair(self, frame_bytes: int) -> tuple[Transport, Transport]:
        here, there = (one.detach() for one in socket.socketpair())
        return (
            PipeTransport(here, here, frame_bytes=frame_bytes),
            PipeTransport(there, there, frame_bytes=frame_bytes),
        )
