"""The last messages of the protocol with all agents, as lines of a recording; also to a file."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import UNSET, Raw, Struct

from accord.text import lenient_json
from accord.transports.base import Frame
from accord_trace.message_index import MessageRow
from accord_trace.recording import Recording
from accord_trace.records import Pairing, Record, decode_record
from accord_trace.selection import Filter, name_fits
from accord_trace.trace_file import TraceFile

MAX_MESSAGES = 5000
MAX_BYTES = 16_000_000
MAX_LINE = 1_000_000  # of a message; a longer one is kept without its content
_CUT = 2000  # characters of it that are kept

Observer = Callable[[Literal["received", "sent"], Frame], None]


class Message(Struct, frozen=True):
    """A line of the recording, numbered from 0. A response has the method of its request."""

    number: int
    line: bytes
    method: str = ""
    session: str | None = None
    pair: int | None = None  # the number of the request
    latency_s: float | None = None
    is_cut: bool = False

    def record(self) -> Record:
        """Return the message."""
        return _decoded(self.line)

    def row(self, record: Record) -> MessageRow:
        """Return the values of the message, as those of a recording."""
        return MessageRow(
            number=self.number,
            ts=record.ts,
            kind=record.type,  # type: ignore[arg-type]  # decoding has checked it
            direction="to_agent" if record.dir == "to_agent" else "to_client",
            sender=record.sender,
            receiver=record.receiver,
            conn=record.conn,
            method=self.method if record.method is UNSET else record.method,
            session=record.session or self.session,
            id=record.id_text,
            bytes=record.bytes,
            is_error=record.is_error or record.type == "invalid",
            pair=self.pair,
            latency_s=self.latency_s,
        )


class Traffic:
    """Keeps at most 5,000 messages and 16 MB; `write_to` writes these and all that follow."""

    def __init__(self, argv: tuple[str, ...] = ()) -> None:
        self.total = 0  # messages so far
        self.path: Path | None = None  # of the file that is being written
        self.problem = ""  # why the rest could not be written
        self._messages: deque[Message] = deque()
        self._bytes = 0
        self._header = b""
        self._file: TraceFile | None = None
        self._pairing = Pairing()
        self._numbers: dict[Record, int] = {}  # of requests without a response
        self._connections = 0
        self._recording = Recording("", argv=argv, file=self)

    def observer(self) -> tuple[str, Observer]:
        """Return the name of a new connection, and what is told its frames."""
        self._connections += 1
        name = str(self._connections)
        return name, self._recording.hop(conn=name).observer("client")

    @property
    def first(self) -> int:
        """The number of the oldest message that is kept."""
        return self.total - len(self._messages)

    def get(self, number: int) -> Message | None:
        """Return a message, if it is still kept."""
        at = number - self.first
        return self._messages[at] if 0 <= at < len(self._messages) else None

    def since(self, number: int) -> Iterator[Message]:
        """Yield the messages from a number on."""
        return islice(tuple(self._messages), max(0, number - self.first), None)

    def write_to(self, path: Path) -> None:
        """Write what is kept and what follows to a file; raise `OSError` if it cannot be made."""
        self.stop_writing()
        self._recording.flush()
        file = TraceFile(path, lambda _part: self._header)
        try:
            file.write(b"".join(b"%b\n" % one.line for one in self._messages if not one.is_cut))
        except OSError:
            file.close()
            raise
        self._file, self.path, self.problem = file, path, ""

    def stop_writing(self) -> None:
        """Close the file."""
        file, self._file, self.path = self._file, None, None
        if file is not None:
            self._recording.flush()
            file.close()

    # What the recording calls.

    def write(self, lines: bytes) -> None:
        """Keep whole lines, and write them to the file."""
        if not self._header:
            self._header = lines
            return
        if self._file is not None:
            try:
                self._file.write(lines)
            except OSError as error:
                self.problem = f"{self.path} cannot be written: {error.strerror}"
                self._file = self.path = None
        for line in lines.split(b"\n"):
            if line:
                self._keep(line)

    def close(self) -> None:
        """Close the file."""
        self.stop_writing()

    def _keep(self, line: bytes) -> None:
        message = self._message(line)
        self.total += 1
        self._messages.append(message)
        self._bytes += len(message.line)
        while len(self._messages) > MAX_MESSAGES or self._bytes > MAX_BYTES:
            self._bytes -= len(self._messages.popleft().line)

    def _message(self, line: bytes) -> Message:
        is_cut = len(line) > MAX_LINE
        is_paired = line.startswith((b'{"type":"request"', b'{"type":"response"'))
        if not (is_cut or is_paired):
            return Message(self.total, line)  # most are updates, which are decoded when shown
        record = _decoded(line)
        if is_cut:
            record = _cut(record)
            line = msgspec.json.encode(record)
        message = Message(self.total, line, is_cut=is_cut)
        if not is_paired:
            return message
        record.params = record.payload = record.raw = UNSET  # it may be kept for long
        answered = self._pairing.add(record)
        if record.type == "request":
            if len(self._numbers) >= MAX_MESSAGES:  # without responses
                self._pairing, self._numbers = Pairing(), {}
                self._pairing.add(record)
            self._numbers[record] = self.total
        elif answered is not None:
            request = answered.request
            pair = self._numbers.pop(request, None)
            message = msgspec.structs.replace(
                message,
                method=answered.method,
                session=request.session,
                pair=pair,
                latency_s=answered.seconds,
            )
        return message


def _decoded(line: bytes) -> Record:
    try:
        record = decode_record(line)
    except ValueError:
        record = None
    return record or Record(type="invalid", raw=line.decode("utf-8", "replace"), bytes=len(line))


def _cut(record: Record) -> Record:
    """Return a record with only the beginning of its content."""
    for name in ("params", "payload"):
        raw = getattr(record, name)
        if raw is not UNSET:
            text = bytes(raw)[: 4 * _CUT].decode("utf-8", "replace")[:_CUT]
            setattr(record, name, Raw(lenient_json.dumps({"beginning": text})))
    record.raw = (
        record.raw[:_CUT] if record.type == "invalid" and record.raw is not UNSET else UNSET
    )
    return record


def matches(message: Message, row: MessageRow, wanted: Filter) -> bool:
    """Return whether a message meets the conditions: methods, sessions, errors and text."""
    if wanted.errors and not row.is_error:
        return False
    if wanted.sessions and row.session not in wanted.sessions:
        return False
    if not name_fits(row.method, wanted.methods):
        return False
    text = wanted.text.lower()
    return not text or text in row.method.lower() or text in _content(message).lower()


def _content(message: Message) -> str:
    frame = message.record().frame
    if b"\\u" in frame:  # many programs write only ASCII
        with suppress(lenient_json.NotJson, RecursionError):
            frame = lenient_json.dumps(lenient_json.loads(frame))
    return frame.decode("utf-8", "replace")
