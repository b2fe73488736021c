"""The frames that wait for the reader of one stream of events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from accord.transports.base import HIGH_BYTES, LOW_BYTES, Frame

SEND_BYTES = 64 * 1024  # of frames sent together
SLOW_S = 1.0  # a reader without progress for so long no longer delays the agent
SETTLE_S = 0.02  # for a client to read this stream, before a message that follows on another


class Reader(Protocol):
    """The GET that reads a stream."""

    def wake(self) -> None:
        """Called when there is something to send, or the stream has ended."""
        ...

    def leave(self) -> None:
        """Called when the reader must end at once."""
        ...

    def has_stopped(self) -> bool:
        """Return whether the client has stopped reading, or is gone."""
        ...


class StreamOwner(Protocol):
    """What a stream reports to its connection."""

    def was_read(self, size: int) -> None:
        """Called when frames of `size` bytes no longer wait."""
        ...

    def reader_changed(self, stream: EventStream) -> None:
        """Called when a reader was attached or has left."""
        ...

    def delay_changed(self, stream: EventStream) -> None:
        """Called when `delays` has changed."""
        ...


class EventStream:
    """The frames for one stream, in order, until a reader has sent them.

    `session` is None for the stream of the connection. A stream is `provisional` while the agent
    has not mentioned its session. It `delays` the agent while its reader is behind but reads: a
    reader that stops does not delay it, until the connection holds too much.
    """

    def __init__(self, session: str | None, owner: StreamOwner, *, provisional: bool) -> None:
        self.session = session
        self.provisional = provisional
        self.size: int = 0  # bytes that were not sent
        self.reader: Reader | None = None
        self.delays: bool = False
        self.ended: bool = False
        self._owner = owner
        self._frames: deque[Frame] = deque()
        self._taken: list[Frame] = []  # by the reader, which sends them
        self._dropped = False
        self._put = 0  # frames so far
        self._sent = 0
        self._marks: deque[tuple[int, Callable[[], None]]] = deque()
        self._settling: asyncio.TimerHandle | None = None
        self._slow_check: asyncio.TimerHandle | None = None
        self._stalled = False

    def put(self, frames: Sequence[Frame], size: int) -> None:
        """Append frames of `size` bytes together."""
        if self.ended:
            self._owner.was_read(size)
            return
        self._frames += frames
        self._put += len(frames)
        self.size += size
        if self.reader is not None:
            self.reader.wake()
            if self.size > HIGH_BYTES and not self.delays and not self._stalled:
                self._set_delays(True)
                self._check_later()

    def when_sent(self, callback: Callable[[], None]) -> None:
        """Call back `SETTLE_S` after everything that was put so far has been sent.

        It is called at once if the stream ends, or if the reader leaves and nothing waits for it.
        A client may read two streams in any order: without the pause, the official TypeScript
        client often has the later message first.
        """
        if self.ended:
            callback()
            return
        self._marks.append((self._put, callback))
        self._settle()

    def end(self, *, drop: bool = False) -> None:
        """End after what was put, or at once if `drop`."""
        self.ended = True
        if drop and not self._dropped:
            self._dropped = True
            size, self.size = self.size, 0
            self._frames.clear()
            self._taken = []
            self._owner.was_read(size)
        self.release_marks()
        self._set_delays(False)
        if self.reader is not None:
            if drop:
                self.reader.leave()
            else:
                self.reader.wake()

    def release_marks(self) -> None:
        """Make all callbacks of `when_sent` now."""
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
        while self._marks:
            self._marks.popleft()[1]()

    # For the reader.

    def attach(self, reader: Reader) -> None:
        """Let a reader take the frames, in place of the present one."""
        if self.reader is not None:
            self.reader.leave()
            self._put_back()
        self.reader = reader
        self._owner.reader_changed(self)

    def detach(self, reader: Reader) -> None:
        """Remove a reader; what it has taken and not sent waits for the next one."""
        if self.reader is reader:
            self._put_back()
            self.reader = None
            self._stalled = False
            self._set_delays(False)
            if not self.size:
                self.release_marks()
            self._owner.reader_changed(self)

    def take(self) -> list[Frame]:
        """Remove the first frames, up to `SEND_BYTES` of them and at least one if there is one."""
        frames = self._frames
        if not frames:
            return []
        first = frames.popleft()
        taken = [first]
        left = SEND_BYTES - len(first)
        while frames and (left := left - len(frames[0])) >= 0:
            taken.append(frames.popleft())
        self._taken = taken
        return taken

    def count_sent(self) -> None:
        """Count the frames that were taken as sent."""
        taken, self._taken = self._taken, []
        size = sum(map(len, taken))
        self._sent += len(taken)
        self.size -= size
        self._stalled = False
        if self.delays and self.size <= LOW_BYTES:
            self._set_delays(False)
        self._owner.was_read(size)
        self._settle()

    def _settle(self) -> None:
        """Make the callbacks for what has been sent, after a pause."""
        if self._settling is None and self._marks and self._marks[0][0] <= self._sent:
            self._settling = asyncio.get_running_loop().call_later(SETTLE_S, self._release_sent)

    def _release_sent(self) -> None:
        self._settling = None
        while self._marks and self._marks[0][0] <= self._sent:
            self._marks.popleft()[1]()

    def _put_back(self) -> None:
        self._frames.extendleft(reversed(self._taken))
        self._taken = []

    # How fast the reader is.

    def _check_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._slow_check = loop.call_later(SLOW_S, self._check, self._sent)

    def _check(self, sent_before: int) -> None:
        if self._sent != sent_before:
            self._check_later()
        else:
            self._stalled = True
            self._set_delays(False)

    def _set_delays(self, delays: bool) -> None:
        if self.delays is delays:
            return
        self.delays = delays
        if self._slow_check is not None:
            self._slow_check.cancel()
            self._slow_check = None
        self._owner.delay_changed(self)
