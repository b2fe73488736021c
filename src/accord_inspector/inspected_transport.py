"""A transport that is recorded, and that lets the page change and add messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from accord.trace.recording import HopRecorder
from accord.trace.records import Direction
from accord.transports.base import Frame, NullReceiver, Receiver, Transport
from accord_inspector.passages import Deliver, Passages, is_of_injected

__all__ = ("InspectedTransport",)


class InspectedTransport(Transport):
    """The client's transport to an agent: records every frame, and passes it through `passages`.

    Messages are recorded when their sender sends them. The responses to requests whose ids begin
    with `inspect-` are recorded, and not passed on. `written` is called after each record.
    """

    def __init__(
        self,
        inner: Transport,
        hop: HopRecorder,
        passages: Passages,
        *,
        written: Callable[[], None],
    ) -> None:
        self.inner: Transport = inner
        self.frame_bytes = inner.frame_bytes
        self._hop = hop
        self._passages = passages
        self._written = written
        self._receiver: Receiver = NullReceiver()
        self._has_injected = False

    async def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        await self.inner.start(self)

    def write(self, frames: Sequence[Frame]) -> None:
        self._pass("to_agent", frames)

    @property
    def congested(self) -> bool:
        return self.inner.congested

    def pause_reading(self) -> None:
        self.inner.pause_reading()

    def resume_reading(self) -> None:
        self.inner.resume_reading()

    async def aclose(self) -> None:
        self._receiver = NullReceiver()
        await self.inner.aclose()

    async def exit_error(self) -> Exception | None:
        return await self.inner.exit_error()

    def inject(self, direction: Direction, frame: bytes) -> None:
        """Send bytes by hand, as if the other side had sent them; they are recorded."""
        self._has_injected = True
        self._record(direction, frame)
        # Not from within the call of a receiver.
        asyncio.get_running_loop().call_soon(self._deliver(direction), [frame])

    def noise(self, text: str) -> None:
        """Record a line of the agent that is not a message."""
        self._record("to_client", text.encode("utf-8", "surrogateescape"))

    # The receiver of the inner transport.

    def frames_received(self, frames: Sequence[Frame]) -> None:
        self._pass("to_client", frames)

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        self._hop.refused("to_client", head)
        self._written()
        self._receiver.frame_refused(limit, head)

    def eof_received(self, error: Exception | None) -> None:
        self._hop.end("to_client", "" if error is None else str(error))
        self._written()
        self._receiver.eof_received(error)

    def writable(self) -> None:
        self._receiver.writable()

    def _pass(self, direction: Direction, frames: Sequence[Frame]) -> None:
        for frame in frames:
            self._hop.frame(direction, frame)
        self._written()
        if self._has_injected:
            frames = [frame for frame in frames if not is_of_injected(frame)]
            if not frames:
                return
        passage = self._passages.get(direction)
        if passage is None:
            self._deliver(direction)(frames)
        else:
            passage(frames, self._deliver(direction))

    def _deliver(self, direction: Direction) -> Deliver:
        return self.inner.write if direction == "to_agent" else self._receive

    def _receive(self, frames: Sequence[Frame]) -> None:
        self._receiver.frames_received(frames)

    def _record(self, direction: Direction, frame: bytes) -> None:
        self._hop.frame(direction, frame)
        self._written()
