"""Carries frames as lines over two file descriptors."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from contextlib import suppress

from accord.errors import ConnectionClosed, ConnectionLost, TransportError
from accord.jsonrpc.message import LineReader
from accord.transports.base import FRAME_BYTES, Frame, NullReceiver, Receiver, Transport
from accord.transports.fd import Reader, Writer, open_reader, open_writer

log: logging.Logger = logging.getLogger("accord.transports")

FLUSH_S = 2.0  # for the peer to read what was written before `aclose`
LINGER_S = 1.0  # for the peer to close after it stopped reading
_LARGE_BYTES = 256 * 1024  # frames that are not copied to join them with others


class PipeTransport(Transport):
    """Reads one file descriptor and writes another; it owns both.

    They may be the same, such as that of a socket.
    """

    def __init__(self, read_fd: int, write_fd: int, *, frame_bytes: int = FRAME_BYTES) -> None:
        self._fds: set[int] = {read_fd, write_fd}  # not owned by the reader or the writer yet
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._lines = LineReader(frame_bytes)
        self._feed = self._lines.feed
        self.frame_bytes = frame_bytes
        self._receiver: Receiver = NullReceiver()
        self._reader: Reader | None = None
        self._writer: Writer | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._lost: ConnectionLost | None = None
        self._closed: asyncio.Future[None] | None = None

    async def start(self, receiver: Receiver) -> None:
        if self._closed is not None:
            raise ConnectionClosed("The transport was closed")
        self._begin(receiver)

    def _begin(self, receiver: Receiver) -> None:
        loop = asyncio.get_running_loop()
        self._receiver = receiver
        try:
            for fd in self._fds:
                os.fstat(fd)
            if self._read_fd == self._write_fd:
                self._write_fd = os.dup(self._read_fd)
            self._writer = open_writer(loop, self._write_fd, self._writable, self._broken)
            self._fds.discard(self._write_fd)
            self._reader = open_reader(loop, self._read_fd, self._received, self._ended)
            self._fds.discard(self._read_fd)
        except OSError as exc:
            raise TransportError(f"Cannot use the pipes: {exc.strerror}") from exc

    def write(self, frames: Sequence[Frame]) -> None:
        writer = self._writer
        if writer is None or not frames:
            return
        if max(map(len, frames)) < _LARGE_BYTES:
            writer.write(b"\n".join((*frames, b"")))
            return
        for frame in frames:
            writer.write(frame)
            writer.write(b"\n")

    def write_bytes(self, data: bytes) -> None:
        """Send bytes as they are, also malformed and unfinished lines: to test the peer."""
        if self._writer is not None and data:
            self._writer.write(data)

    @property
    def congested(self) -> bool:
        return self._writer is not None and self._writer.congested

    def pause_reading(self) -> None:
        if self._reader is not None:
            self._reader.pause()

    def resume_reading(self) -> None:
        if self._reader is not None:
            self._reader.resume()

    async def aclose(self) -> None:
        if self._closed is not None:
            await asyncio.shield(self._closed)
            return
        self._closed = asyncio.get_running_loop().create_future()
        self._receiver = NullReceiver()
        try:
            await self._close()
        finally:
            self._closed.set_result(None)

    async def _close(self) -> None:
        self.pause_reading()
        try:
            await self._close_writer(FLUSH_S)
        finally:
            await self._close_reader()

    async def _close_writer(self, flush_s: float) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.aclose(flush_s)

    async def _close_reader(self) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.aclose()
        for fd in self._fds:
            with suppress(OSError):  # it may not be open
                os.close(fd)
        self._fds.clear()

    def _received(self, data: bytes) -> None:
        frames = self._feed(data)
        if frames:
            self._receiver.frames_received(frames)
        if self._lines.refused:
            self._report_refused()

    def _report_refused(self) -> None:
        refused, self._lines.refused = self._lines.refused, []
        for head in refused:
            self._receiver.frame_refused(self.frame_bytes, head)

    def _ended(self, error: OSError | None) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
        if frames := self._lines.finish():
            self._receiver.frames_received(frames)
        if error is not None and self._lost is None:
            self._lost = ConnectionLost(f"The connection broke: {error.strerror}")
        log.debug("= end of input")
        self._receiver.eof_received(self._lost)

    def _writable(self) -> None:
        self._receiver.writable()

    def _broken(self, error: OSError) -> None:
        """Handle a failed write: read what the peer has sent, then end."""
        log.debug("! cannot write: %s", error.strerror)
        self._lost = ConnectionLost("The peer stopped reading")
        if self._reader is not None:
            loop = asyncio.get_running_loop()
            self._lingering = loop.call_later(LINGER_S, self._reader.end_when_empty)
