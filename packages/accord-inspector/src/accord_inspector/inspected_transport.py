"""A transport that is recorded, with faults, and with messages that are sent by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from accord.transports.base import Frame, Transport
from accord_inspector.faults import Faults
from accord_inspector.faults_transport import FaultyTransport
from accord_inspector.paced_transport import PacedTransport
from accord_inspector.sent_by_hand import is_of_injected
from accord_inspector.strange_lines import StrangeLines
from accord_trace.recording import HopRecorder
from accord_trace.records import Direction

_FLOOD_LINES = 1000  # in one read, that are not messages
_REST_S = 0.1  # after them, in which nothing is read
_SHOW_S = 1.0  # between two counts of such lines on the page
_LOOKED_BYTES = 1000  # longer frames are not looked at: they do not come in millions


class InspectedTransport(FaultyTransport):
    """The client's transport to an agent: records every frame when its sender sends it.

    Then the faults act on it. The responses to requests whose ids begin with `inspect-` are
    recorded, and not passed on. Lines of the agent that are not messages are recorded while they
    are few; if they are many, reading is slowed down, and the ones that are not recorded are
    dropped. `numbers` are those of the rows of the recording; `written` is called after each
    record, `strange` when `lines` have changed.
    """

    def __init__(
        self,
        inner: Transport,
        hop: HopRecorder,
        faults: Faults,
        numbers: Iterator[int],
        *,
        written: Callable[[], None],
        lines: StrangeLines,
        strange: Callable[[], None],
    ) -> None:
        self._paced = PacedTransport(inner)
        self._hop = hop
        self._numbers = numbers
        self._written = written
        self._has_injected = False
        self._first_sent: Frame | None = None
        self._has_received = False
        self._is_over = False  # whether the agent's output has ended
        self._lines = lines
        self._new_lines = 0  # that are not messages, in this iteration of the event loop
        self._shown = 0  # lines that are not messages, when `strange` was called
        self._is_shown_later: asyncio.TimerHandle | None = None
        self._strange = strange
        super().__init__(self._paced, faults, self._record)

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
        write = getattr(self._paced.inner, "write_bytes", None)
        if write is None:
            raise TypeError("Bytes without a line end can be sent over a pipe only")
        number = self._record("to_agent", [data]) if data.strip() else None
        write(data)
        return number

    def write(self, frames: Sequence[Frame]) -> None:
        if self._first_sent is None and frames:
            self._first_sent = bytes(frames[0])
        super().write(frames)

    def received(self, frames: Sequence[Frame]) -> None:
        if not self._has_received and frames:
            self._has_received = True
            if frames[0] == self._first_sent:
                self._lines.echoes = True
                self._strange()
        # Usually all are messages, which takes 0.1 µs for each to see.
        if not all(map(_is_message, frames)):
            frames = [one for one in frames if _is_message(one) or self._is_recorded(one)]
        if frames:
            super().received(frames)

    def noise(self, text: str) -> None:
        """Record a line of the agent that is not JSON, unless there are too many."""
        data = text.encode("utf-8", "surrogateescape")
        if self._is_recorded(data):
            self._record("to_client", [data])

    async def exit_error(self) -> Exception | None:
        # If the client gave the agent up, this is not how the agent has ended.
        return await super().exit_error() if self._is_over else None

    def refused(self, limit: int, head: bytes) -> None:
        if head.strip():
            next(self._numbers)
            self._hop.refused("to_client", head)
            self._written()
        super().refused(limit, head)

    def ended(self, error: Exception | None) -> None:
        self._is_over = True
        next(self._numbers)
        self._hop.end("to_client", "" if error is None else str(error))
        self._written()
        super().ended(error)

    def _is_recorded(self, line: Frame) -> bool:
        """Count a line that is not a message; return whether to record it."""
        self._new_lines += 1
        if self._new_lines == 1:
            asyncio.get_running_loop().call_soon(self._lines_added)
        return self._lines.is_recorded(line)

    def _lines_added(self) -> None:
        if self._new_lines >= _FLOOD_LINES:
            self._paced.rest(_REST_S)
        self._new_lines = 0
        if self._is_shown_later is None:
            self._show_lines()

    def _show_lines(self) -> None:
        """Show the number of lines, at most once a second."""
        self._is_shown_later = None
        if self._lines.count == self._shown:
            return
        self._shown = self._lines.count
        self._strange()
        loop = asyncio.get_running_loop()
        self._is_shown_later = loop.call_later(_SHOW_S, self._show_lines)

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


def _is_message(frame: Frame) -> bool:
    """Return whether a frame may be a JSON-RPC message: every one has a method or an id."""
    return len(frame) > _LOOKED_BYTES or b'"method"' in frame or b'"id"' in frame
