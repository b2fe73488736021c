"""Frames over an accepted connection: the kit's end of a component that it plays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import cast

from accord.transports.base import HIGH_BYTES, LOW_BYTES, Frame, NullReceiver, Receiver, Transport


class StreamTransport(asyncio.Protocol, Transport):
    """Lines of JSON; `on_hello` gets the first line, which says who has connected."""

    def __init__(self, on_hello: Callable[[StreamTransport, bytes], None]) -> None:
        self._on_hello = on_hello
        self._greeted = False
        self._receiver: Receiver = NullReceiver()
        self._early: list[bytes] | None = []  # lines before `start`
        self._rest = b""
        self._congested = False
        self._transport: asyncio.Transport | None = None
        self._lost = asyncio.get_running_loop().create_future()

    # Calls of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(HIGH_BYTES, LOW_BYTES)

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if not self._greeted and lines:
            self._greeted = True
            self._on_hello(self, lines.pop(0))
        if self._early is not None:
            self._early += lines
        elif lines:
            self._receiver.frames_received(lines)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._lost.done():
            self._lost.set_result(None)
        self._receiver.eof_received(None)

    def pause_writing(self) -> None:
        self._congested = True

    def resume_writing(self) -> None:
        self._congested = False
        self._receiver.writable()

    # The transport of a hop.

    async def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        early, self._early = self._early, None
        if early:
            receiver.frames_received(early)
        if self._lost.done():
            receiver.eof_received(None)

    def write(self, frames: Sequence[Frame]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(part for frame in frames for part in (frame, b"\n")))

    @property
    def congested(self) -> bool:
        return self._congested

    def pause_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    async def aclose(self) -> None:
        self._receiver = NullReceiver()
        if self._transport is not None and not self._lost.done():
            # What is unsent is dropped: the component may not read any more.
            self._transport.abort()
            with suppress(asyncio.CancelledError):
                await self._lost
