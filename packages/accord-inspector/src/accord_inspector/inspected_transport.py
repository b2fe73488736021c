"""A transport that is recorded, with faults, and with messages that are sent by hand.

What the agent sends is read in short parts, so that the page is served in between. Every frame is
recorded when its sender sends it; then the faults act on it.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import perf_counter
from typing import TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from accord.errors import ConnectionLost
from accord.text.excerpt import one_line
from accord.transports.base import Frame, NullReceiver, Receiver, Transport
from accord_inspector.faults import FaultPath, Faults
from accord_trace.recording import HopRecorder
from accord_trace.records import Direction

# Requests that were sent by hand, and the responses to them, are recognized by their ids.

INJECTED = "inspect-"  # the ids of requests that are sent by hand begin with it
_INJECTED_ID = re.compile(rb'"id"\s*:\s*"inspect-')


class _Envelope(Struct, gc=False):
    method: Raw | UnsetType = UNSET
    id: str | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Envelope).decode


def is_of_injected(frame: Frame) -> bool:
    """Return whether a frame is the response to a request that was sent by hand."""
    envelope = _injected(frame)
    return envelope is not None and envelope.method is UNSET


def is_request_by_hand(frame: Frame) -> bool:
    """Return whether a frame is a request whose response is not for the other side."""
    envelope = _injected(frame)
    return envelope is not None and envelope.method is not UNSET


def _injected(frame: Frame) -> _Envelope | None:
    if not _INJECTED_ID.search(frame):
        return None
    try:
        envelope = _decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if envelope.id is UNSET or not envelope.id.startswith(INJECTED):
        return None
    return envelope


# The lines of an agent that are not messages: counted, and recorded while they are few.

_ALL = 200  # lines that are recorded, however fast they come
_INTERVAL_S = 0.1  # between two recorded lines after them
_SHOWN = 40  # characters


class StrangeLines:
    """Counts the lines of one process; `is_recorded` chooses those that the timeline shows.

    A program that is not an agent may write a million lines in a second. `echoes` is set if it
    sends back what it receives.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self.count: int = 0
        self.recorded: int = 0
        self.first: str = ""  # of the lines, for people
        self.echoes: bool = False
        self._clock = clock
        self._last = 0.0  # the time of the newest recorded line

    def is_recorded(self, line: bytes | bytearray) -> bool:
        """Count a line; return whether to record it."""
        if not line.strip():
            return False
        self.count += 1
        if self.recorded >= _ALL:
            now = self._clock()
            if now - self._last < _INTERVAL_S:
                return False
            self._last = now
        if not self.recorded:
            self.first = one_line(line[: 4 * _SHOWN].decode("utf-8", "replace"), _SHOWN)
        self.recorded += 1
        return True


class FaultyTransport(Transport):
    """Wraps the client's transport to an agent, which it owns.

    `observe` gets all frames as their sender has sent them, before faults act on them; it returns
    the row of the first one in the recording, or None.
    """

    def __init__(
        self,
        inner: Transport,
        faults: Faults,
        observe: Callable[[Direction, Sequence[Frame]], int | None],
    ) -> None:
        self.frame_bytes = inner.frame_bytes
        self.inner: Transport = inner
        self.faults: Faults = faults
        self._observe = observe
        self._receiver: Receiver = NullReceiver()
        self._is_paused = False
        self._has_ended = False
        self._closing: asyncio.Task[None] | None = None
        self._to_agent = FaultPath(
            faults, "to_agent", self._write, cut=self._cut, on_free=self._agent_is_free
        )
        self._to_client = FaultPath(
            faults, "to_client", self._deliver, cut=self._cut, on_free=self._client_is_free
        )

    async def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        try:
            await self.inner.start(_Inner(self))
        except BaseException:
            self._close_paths()
            raise

    def write(self, frames: Sequence[Frame]) -> None:
        if frames:
            self.send("to_agent", frames)

    def send(self, direction: Direction, frames: Sequence[Frame]) -> int | None:
        """Send frames as if the client, or the agent, had sent them; return the first one's row."""
        if self._closing is not None:
            return None
        number = self._observe(direction, frames)
        path = self._to_agent if direction == "to_agent" else self._to_client
        path.pass_frames(frames, number)
        return number

    @property
    def congested(self) -> bool:
        return self._to_agent.congested or self.inner.congested

    def pause_reading(self) -> None:
        self._is_paused = True
        self._to_client.pause()
        self.inner.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        self._to_client.resume()
        self._client_is_free()

    async def aclose(self) -> None:
        self._receiver = NullReceiver()
        self._close_paths()
        self.faults.continue_process()  # it could not exit otherwise
        if self._closing is not None:
            await asyncio.shield(self._closing)
        await self.inner.aclose()

    async def exit_error(self) -> Exception | None:
        return None if self._closing is not None else await self.inner.exit_error()

    def received(self, frames: Sequence[Frame]) -> None:
        """Pass on what the agent has sent."""
        self.send("to_client", frames)
        if self._to_client.congested:
            self.inner.pause_reading()

    def refused(self, limit: int, head: bytes) -> None:
        """Pass on that a frame was too large, after those before it."""
        self._to_client.end(partial(self._receiver.frame_refused, limit, head))

    def ended(self, error: Exception | None) -> None:
        """Pass on the end of the agent's output, after the frames that wait."""
        self._to_client.end(partial(self._end, error))

    def agent_reads(self) -> None:
        """Pass on that the agent reads again, unless a fault still holds frames back."""
        if not self._to_agent.congested:
            self._receiver.writable()

    def _to_be_delivered(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        """Return the frames without those that are for neither side."""
        return frames

    def _write(self, frames: Sequence[Frame]) -> None:
        self.inner.write(self._to_be_delivered(frames))

    def _deliver(self, frames: Sequence[Frame]) -> None:
        frames = self._to_be_delivered(frames)
        if frames:
            self._receiver.frames_received(frames)

    def _end(self, error: Exception | None) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._receiver.eof_received(error)

    def _agent_is_free(self) -> None:
        if not self.inner.congested:
            self._receiver.writable()

    def _client_is_free(self) -> None:
        if not self._is_paused and not self._to_client.congested:
            self.inner.resume_reading()

    def _cut(self) -> None:
        """Close the connection to the agent now; the client gets an error."""
        if self._closing is None:
            self._close_paths()
            self._closing = asyncio.create_task(self.inner.aclose(), name="accord cut")
            # Not within a call of the receiver: it may be the one that writes.
            error = ConnectionLost("The inspector has cut the connection")
            asyncio.get_running_loop().call_soon(self._end, error)

    def _close_paths(self) -> None:
        self._to_agent.close()
        self._to_client.close()


class _Inner:
    """Receives what the inner transport reads."""

    def __init__(self, outer: FaultyTransport) -> None:
        self._outer = outer

    def frames_received(self, frames: Sequence[Frame]) -> None:
        self._outer.received(frames)

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        self._outer.refused(limit, head)

    def eof_received(self, error: Exception | None) -> None:
        self._outer.ended(error)

    def writable(self) -> None:
        self._outer.agent_reads()


_PART = 32  # frames between two looks at the clock
_PART_S = 0.01  # for frames, before others run

_Item: TypeAlias = Sequence[Frame] | Callable[[], None]


class PacedTransport(Transport):
    """Passes on what `inner` reads, for a few milliseconds in each iteration of the event loop.

    One read may have thousands of frames, which take seconds to be recorded and handled. While some
    wait, nothing is read: an agent that writes faster is slowed down. `rest` slows it down further.
    """

    def __init__(self, inner: Transport) -> None:
        self.frame_bytes = inner.frame_bytes
        self.inner: Transport = inner
        self._receiver: Receiver = NullReceiver()
        self._waiting: deque[_Item] = deque()
        self._is_paused = False
        self._is_passing = False
        self._next: asyncio.Handle | None = None
        self._rest: asyncio.TimerHandle | None = None

    async def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        await self.inner.start(self)

    def write(self, frames: Sequence[Frame]) -> None:
        self.inner.write(frames)

    @property
    def congested(self) -> bool:
        return self.inner.congested

    def pause_reading(self) -> None:
        self._is_paused = True
        self.inner.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        self._continue()

    def rest(self, seconds: float) -> None:
        """Read nothing for a time."""
        if self._rest is None:
            self.inner.pause_reading()
            self._rest = asyncio.get_running_loop().call_later(seconds, self._rested)

    async def aclose(self) -> None:
        self._receiver = NullReceiver()
        self._waiting.clear()
        for handle in (self._next, self._rest):
            if handle is not None:
                handle.cancel()
        await self.inner.aclose()

    async def exit_error(self) -> Exception | None:
        return await self.inner.exit_error()

    # The receiver of the inner transport.

    def frames_received(self, frames: Sequence[Frame]) -> None:
        self._add(frames)

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        self._add(partial(self._receiver.frame_refused, limit, head))

    def eof_received(self, error: Exception | None) -> None:
        self._add(partial(self._receiver.eof_received, error))

    def writable(self) -> None:
        self._receiver.writable()

    def _add(self, item: _Item) -> None:
        self._waiting.append(item)
        if self._next is None and not self._is_paused:
            self._pass()

    def _pass(self) -> None:
        self._next = None
        until = perf_counter() + _PART_S
        self._is_passing = True
        while self._waiting and not self._is_paused:
            item = self._waiting.popleft()
            if callable(item):
                item()
            else:
                if len(item) > _PART:
                    self._waiting.appendleft(item[_PART:])
                    item = item[:_PART]
                self._receiver.frames_received(item)
            if perf_counter() >= until:
                break
        self._is_passing = False
        self._continue()

    def _continue(self) -> None:
        """Pass on more, or read more, unless this is not the time for it."""
        if self._is_paused or self._is_passing or self._next is not None:
            return
        if self._waiting:
            self.inner.pause_reading()
            self._next = asyncio.get_running_loop().call_soon(self._pass)
        elif self._rest is None:
            self.inner.resume_reading()

    def _rested(self) -> None:
        self._rest = None
        self._continue()


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
