"""A transport that is recorded, with faults, and with messages that are sent by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from accord.trace.recording import HopRecorder
from accord.trace.records import Direction
from accord.transports.base import Frame, Transport
from accord_inspector.faults import Faults
from accord_inspector.faults_transport import FaultyTransport
from accord_inspector.sent_by_hand import is_of_injected

__all__ = ("InspectedTransport",)


class InspectedTransport(FaultyTransport):
    """The client's transport to an agent: records every frame when its sender sends it.

    Then the faults act on it. The responses to requests whose ids begin with `inspect-` are
    recorded, and not passed on. `numbers` are those of the rows of the recording; `written` is
    called after each record.
    """

    def __init__(
        self,
        inner: Transport,
        hop: HopRecorder,
        faults: Faults,
        numbers: Iterator[int],
        *,
        written: Callable[[], None],
    ) -> None:
        self._hop = hop
        self._numbers = numbers
        self._written = written
        self._has_injected = False
        super().__init__(inner, faults, self._record)

    def inject(self, direction: Direction, frames: Sequence[bytes]) -> int | None:
        """Send frames by hand, as if the other side had sent them; return the first one's row."""
        frames = [frame for frame in frames if frame.strip()]
        if not frames:
            return None
        self._has_injected = True
        return self.send(direction, frames)

    def inject_bytes(self, data: bytes) -> int | None:
        """Send bytes to the agent as they are, without a line end and past the faults.

        Raise `TypeError` if the transport is not a pipe.
        """
        write = getattr(self.inner, "write_bytes", None)
        if write is None:
            raise TypeError("Bytes without a line end can be sent over a pipe only")
        number = self._record("to_agent", [data]) if data.strip() else None
        write(data)
        return number

    def noise(self, text: str) -> None:
        """Record a line of the agent that is not a message."""
        data = text.encode("utf-8", "surrogateescape")
        if data.strip():
            self._record("to_client", [data])

    def refused(self, limit: int, head: bytes) -> None:
        if head.strip():
            next(self._numbers)
            self._hop.refused("to_client", head)
            self._written()
        super().refused(limit, head)

    def ended(self, error: Exception | None) -> None:
        next(self._numbers)
        self._hop.end("to_client", "" if error is None else str(error))
        self._written()
        super().ended(error)

    def _record(self, direction: Direction, frames: Sequence[Frame]) -> int:
        first = next(self._numbers)
        for place, frame in enumerate(frames):
            if place:
                next(self._numbers)
            self._hop.frame(direction, frame)
        self._written()
        return first

    def _to_be_delivered(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        if not self._has_injected:
            return frames
        return [frame for frame in frames if not is_of_injected(frame)]
