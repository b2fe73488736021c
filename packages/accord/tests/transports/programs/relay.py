"""An agent that forwards everything between its stdin and stdout and a socket."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Sequence

from accord.transports.base import Frame, Transport
from accord.transports.stdio import PipeTransport, stdio


class Side:
    """Receives from one transport and writes to the other."""

    def __init__(self, here: Transport, there: Transport) -> None:
        self.here = here
        self.there = there
        self.ended = asyncio.Event()

    def frames_received(self, frames: Sequence[Frame]) -> None:
        self.there.write(frames)
        if self.there.congested:
            self.here.pause_reading()

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        raise AssertionError

    def eof_received(self, error: Exception | None) -> None:
        self.ended.set()

    def writable(self) -> None:
        self.there.resume_reading()


async def main(standard: Transport, path: str) -> None:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    fd = connection.detach()
    other = PipeTransport(fd, fd)
    sides = Side(standard, other), Side(other, standard)
    for side in sides:
        await side.here.start(side)
    waits = [asyncio.ensure_future(side.ended.wait()) for side in sides]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    await other.aclose()
    await standard.aclose()


asyncio.run(main(stdio(restore=False), sys.argv[1]))
