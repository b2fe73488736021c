"""Reads event streams (`text/event-stream`): bytes in, payloads out."""

from __future__ import annotations

from accord.jsonrpc.message import HEAD_BYTES
from accord.transports.base import Frame

_FIELD_BYTES = 4096  # of an event in addition to its payload
_MIN_RETRY_S, _MAX_RETRY_S = 0.1, 60.0  # R-HTTP-43
_BOM = b"\xef\xbb\xbf"


class EventReader:
    """Splits the bytes of one event stream into payloads of at most `limit` bytes.

    Lines end with LF, CRLF or CR; several `data` lines are joined; comments and payloads that are
    not JSON objects are skipped (R-HTTP-28). The beginning of a larger payload is added to
    `refused`. `last_id` is the id of the last event that has one, `retry_s` the time that the
    server asks to wait before the stream is opened again. `comments` counts comment lines.
    """

    def __init__(self, limit: int, last_id: str | None = None) -> None:
        self.refused: list[bytes] = []  # the caller removes its items
        self.last_id = last_id
        self.retry_s: float | None = None
        self.comments: int = 0
        self._limit = limit
        self._partial = bytearray()  # of an incomplete event
        self._skipping = False  # the rest of an event that is too large
        self._cut_crlf = False  # the bytes so far end with CR
        self._start: bytes | None = b""  # what may be a byte order mark

    def feed(self, data: bytes) -> list[Frame]:
        """Return the payloads of the events that are complete now."""
        if self._start is not None:
            data = self._start + data
            if data != _BOM and _BOM.startswith(data):
                self._start = data
                return []
            data, self._start = data.removeprefix(_BOM), None
        if b"\r" in data or self._cut_crlf:
            data = self._with_line_feeds(data)
        frames: list[Frame] = []
        if self._partial or self._skipping:
            rest = self._complete(data, frames)
            if rest is None:
                return frames
            data = rest
        events = data.split(b"\n\n")
        if last := events.pop():
            self._hold(last)
        for event in events:
            # Almost all events are one line.
            if event.startswith(b"data: {") and b"\n" not in event and len(event) <= self._limit:
                frames.append(event[6:])
            elif event:
                self._read(event, frames)
        return frames

    def _with_line_feeds(self, data: bytes) -> bytes:
        if self._cut_crlf and data.startswith(b"\n"):
            data = data[1:]
        self._cut_crlf = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _complete(self, data: bytes, frames: list[Frame]) -> bytes | None:
        """Complete the partial event; return what follows it, None if it is still incomplete."""
        if data.startswith(b"\n") and self._ends_line:
            end, after = 0, 1
        else:
            end = data.find(b"\n\n")
            after = end + 2
        if end < 0:
            self._hold(data)
            return None
        if not self._skipping:
            self._hold(data[:end])
        if self._skipping:
            self._skipping = False
        else:
            event, self._partial = bytes(self._partial), bytearray()
            self._read(event, frames)
        self._partial = bytearray()
        return data[after:]

    @property
    def _ends_line(self) -> bool:
        return self._partial.endswith(b"\n")

    def _hold(self, data: bytes) -> None:
        if self._skipping:
            self._partial = bytearray(data[-1:] or self._partial)  # how the last line ends
            return
        self._partial += data
        if len(self._partial) > self._limit + _FIELD_BYTES:
            self._refuse(bytes(self._partial[: HEAD_BYTES + _FIELD_BYTES]))
            self._skipping = True
            self._partial = self._partial[-1:]

    def _refuse(self, event: bytes) -> None:
        head = event.partition(b"data:")[2].lstrip(b" ")
        self.refused.append(head[:HEAD_BYTES])

    def _read(self, event: bytes, frames: list[Frame]) -> None:
        """Read the lines of one event."""
        payload: list[bytes] = []
        for line in event.split(b"\n"):
            field, _, value = line.partition(b":")
            if not field:
                self.comments += line.startswith(b":")
                continue
            value = value.removeprefix(b" ")
            if field == b"data":
                payload.append(value)
            elif field == b"id" and b"\0" not in value:
                self.last_id = value.decode("utf-8", "replace") or None
            elif field == b"retry" and value.isdigit() and len(value) < 10:
                self.retry_s = min(max(int(value) / 1000, _MIN_RETRY_S), _MAX_RETRY_S)
        frame = b"\n".join(payload).strip()
        if len(frame) > self._limit:
            self.refused.append(frame[:HEAD_BYTES])
        elif frame.startswith(b"{"):
            # A frame has no line breaks; between two tokens of JSON they are white space.
            frames.append(frame.replace(b"\n", b" ") if len(payload) > 1 else frame)
