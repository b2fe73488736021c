"""The other end of an agent that relays its messages to a socket of the test."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

from accord.errors import ConnectionClosed
from accord.transports.base import Frame, Receiver, Transport
from accord.transports.stdio import PipeTransport

__all__ = ("Accepted",)


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
