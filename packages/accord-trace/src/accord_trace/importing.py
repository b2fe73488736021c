"""Reads recordings and logs of other programs as records (R-TRACE-02, R-TRACE-03)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cache
from typing import Any

import msgspec

from accord.text import lenient_json
from accord.text.excerpt import one_line
from accord.text.lenient_json import is_object
from accord.v1.methods import METHODS as V1_METHODS
from accord.v2.methods import METHODS as V2_METHODS
from accord_trace.line_builder import Hop, LineBuilder
from accord_trace.records import (
    Direction,
    Header,
    Record,
    component_place,
    damaged_record,
    decode_header,
    decode_record,
)

# Guesses the directions of frames that were saved without them.


class DirectionGuess:
    """Guesses by method and id: one side serves a method, and responses go back.

    `first` decides for the first message whose method says nothing.
    """

    def __init__(self, first: Direction = "to_agent") -> None:
        self._first: Direction = first
        self._open: dict[Direction, dict[str, str]] = {"to_agent": {}, "to_client": {}}

    def direction(self, value: Any) -> Direction:
        """Return the likely direction of a message."""
        if not is_object(value):
            return "to_client"  # noise is from the agent's stdout
        key, method = repr(value.get("id")), value.get("method")
        if not isinstance(method, str):
            return self._back(key)
        direction = _direction_of(method, "id" in value) or self._of_cancel(method, value)
        if "id" in value:
            self._open[direction][key] = method
        return direction

    def _back(self, key: str) -> Direction:
        """Return the direction of a response: if both sides wait for it, the older request."""
        for asked, answered in _ANSWERS.items():
            if key in self._open[asked]:
                del self._open[asked][key]
                return answered
        return _ANSWERS[self._first]

    def _of_cancel(self, method: str, value: dict[str, Any]) -> Direction:
        params = value.get("params")
        if method == "$/cancel_request" and is_object(params):
            key = repr(params.get("requestId"))
            for direction, waiting in self._open.items():
                if key in waiting:
                    return direction
        return self._first


_ANSWERS: dict[Direction, Direction] = {"to_agent": "to_client", "to_client": "to_agent"}


@cache
def _direction_of(method: str, is_request: bool) -> Direction | None:
    found = {
        row.to
        for row in (*V1_METHODS, *V2_METHODS)
        if row.name == method and (row.result is not None) is is_request
    }
    if found == {"agent"}:
        return "to_agent"
    return "to_client" if found == {"client"} else None


_SHOWN_BYTES = 500  # of a line that is skipped
_ACPX_MARK = "acpx.session.journal.v1"
_SIDES: dict[str, Direction] = {
    "client": "to_agent",
    "agent": "to_client",
    "sent": "to_agent",
    "received": "to_client",
    "out": "to_agent",
    "in": "to_client",
    "client-to-agent": "to_agent",
    "agent-to-client": "to_client",
    "left-to-right": "to_agent",
    "right-to-left": "to_client",
    ">": "to_agent",
    "<": "to_client",
}
# What logs have before a frame, from the view of the client.
_SENT = re.compile(r"(?i)(->|→|>>|=>|\b(?:sent|send|sending|outgoing|client|request to)\b)")
_RECEIVED = re.compile(r"(?i)(<-|←|<<|<=|\b(?:received|recv|receive|incoming|agent)\b)")


def import_records(
    lines: Iterable[bytes],
    problems: list[str] | None = None,
    *,
    first: Direction = "to_agent",
    with_damaged: bool = False,
) -> Iterator[Header | Record]:
    """Yield the headers and records of a recording in any known format; it need not be named.

    Known are Accord's and Rust's formats, recordings of `accord check`, journals of acpx,
    Thinkwell's JSONL, frames of which each is a line, and logs whose lines end with a frame. Where
    the direction is not recorded, it is guessed by method and id; `first` is that of the first
    message whose method says nothing. Lines that have no message are described in `problems`; with
    `with_damaged`, those that begin as a record are yielded as messages of neither side.
    """
    importer = Importer(problems, first, with_damaged=with_damaged)
    for line in lines:
        yield from importer.items(line)


class Importer:
    """Imports line by line; see `import_records`."""

    def __init__(
        self, problems: list[str] | None, first: Direction, *, with_damaged: bool = False
    ) -> None:
        self._problems = problems
        self._with_damaged = with_damaged
        self._guess = DirectionGuess(first)
        self._builders: dict[Hop, LineBuilder] = {}
        self._sessions: dict[tuple[str, bytes], str] = {}  # of requests in Rust's format
        self._started: float | None = None
        self._lines = 0

    def items(self, line: bytes) -> Iterator[Header | Record]:
        """Yield the headers and records of the next line."""
        self._lines += 1
        text = line.removeprefix(b"\xef\xbb\xbf") if self._lines == 1 else line
        if not text.strip():
            return
        try:
            yield from self._line(text)
        except ValueError as exc:
            if self._problems is not None:
                shown = one_line(text[:_SHOWN_BYTES].decode("utf-8", "backslashreplace"), 60)
                self._problems.append(f"line {self._lines}: {exc}: {shown}")
            if self._with_damaged and (record := damaged_record(text)) is not None:
                yield record

    def _line(self, line: bytes) -> Iterator[Header | Record]:
        if line.startswith(b'{"type":'):
            header = decode_header(line)
            item = header if header is not None else decode_record(line)
            if isinstance(item, Record) and not item.dir:
                self._complete(item)
            if item is not None:
                yield item
            return
        text = line.strip()
        try:
            value = lenient_json.loads(text)
        except lenient_json.NotJson:
            yield self._of_log(text)
            return
        if not is_object(value):
            raise ValueError("neither a record nor a JSON-RPC message")
        if value.get("schema") == _ACPX_MARK:
            return
        if "message" in value and "direction" in value:
            yield from self._of_thinkwell(value)
        elif "frame" in value and ("from" in value or "direction" in value):
            yield self._of_kit(value)
        elif "end" in value and "from" in value:
            direction = _SIDES.get(str(value["from"]), "to_client")
            yield self._record(self._builder(Hop()).end(_seconds(value.get("time")), direction))
        elif "type" in value and ("from" in value or value["type"] == "header"):
            item = decode_header(line) or decode_record(line)  # with another order of fields
            if isinstance(item, Record) and not item.dir:
                self._complete(item)
            if item is not None:
                yield item
        elif not value.keys().isdisjoint(("jsonrpc", "method", "result", "error")):
            yield self._frame(0.0, self._guess.direction(value), text)
        elif "subject" not in value:  # the first line of a recording of the kit
            raise ValueError("neither a record nor a JSON-RPC message")

    def _complete(self, record: Record) -> None:
        """Fill in what Rust's format does not have."""
        record.dir = (
            "to_agent"
            if component_place(record.sender) < component_place(record.receiver)
            else "to_client"
        )
        number = b"" if record.id is msgspec.UNSET else bytes(record.id)
        if record.type == "response":
            session = self._sessions.pop((f"{record.receiver}>{record.sender}", number), None)
        else:
            session = None
        value = record.value()
        if session is None and is_object(value) and isinstance(value.get("sessionId"), str):
            session = value["sessionId"]
        if session is not None:
            record.session = record.session or session
            if record.type == "request":
                self._sessions[f"{record.sender}>{record.receiver}", number] = session
        record.bytes = len(record.frame)

    def _of_kit(self, value: dict[str, Any]) -> Record:
        side = value.get("from", value.get("direction"))
        direction = _SIDES.get(side) if isinstance(side, str) else None
        if direction is None:
            raise ValueError('expected "client" or "agent" as `from`')
        frame = value["frame"]
        if isinstance(frame, str):
            try:
                text = frame.encode("utf-8", "surrogateescape")
            except UnicodeEncodeError:
                text = frame.encode("utf-8", "surrogatepass")
        else:
            text = lenient_json.dumps(frame)
        return self._frame(_seconds(value.get("time")), direction, text)

    def _of_thinkwell(self, value: dict[str, Any]) -> Iterator[Record]:
        direction = _SIDES.get(str(value["direction"]))
        if direction is None:
            return  # internal: it passed no connection
        source, target = str(value.get("source", "")), str(value.get("target", ""))
        ends = (source, target) if direction == "to_agent" else (target, source)
        hop = Hop(ends[0] or "Client", ends[1] or "Agent", "0")
        message = value["message"]
        text = message.encode() if isinstance(message, str) else lenient_json.dumps(message)
        yield self._frame(self._since_start(value.get("timestamp")), direction, text, hop)

    def _of_log(self, text: bytes) -> Record:
        at = text.find(b"{")
        if at < 0:
            raise ValueError("neither a record nor a JSON-RPC message")
        frame = text[at:]
        try:
            value = lenient_json.loads(frame)
        except lenient_json.NotJson:
            raise ValueError("neither a record nor a complete JSON-RPC message") from None
        if not is_object(value) or value.keys().isdisjoint(("jsonrpc", "method")):
            raise ValueError("neither a record nor a JSON-RPC message")
        before = text[:at].decode("utf-8", "replace")
        sent, received = _SENT.search(before), _RECEIVED.search(before)
        if (sent is None) is (received is None):
            direction = self._guess.direction(value)
        else:
            direction = "to_agent" if sent is not None else "to_client"
        return self._frame(0.0, direction, frame)

    def _since_start(self, timestamp: object) -> float:
        """Return seconds since the first record, from a time as RFC 3339 or in milliseconds."""
        if isinstance(timestamp, str):
            try:
                at = datetime.fromisoformat(timestamp).timestamp()
            except ValueError:
                return 0.0
        elif isinstance(timestamp, int | float):
            at = timestamp / 1000
        else:
            return 0.0
        if self._started is None:
            self._started = at
        return max(at - self._started, 0.0)

    def _builder(self, hop: Hop) -> LineBuilder:
        if hop not in self._builders:
            self._builders[hop] = LineBuilder(hop, redact=False)
        return self._builders[hop]

    def _frame(
        self, ts: float, direction: Direction, text: bytes, hop: Hop | None = None
    ) -> Record:
        return self._record(self._builder(hop or Hop()).line(ts, direction, text))

    def _record(self, line: bytes) -> Record:
        record = decode_record(line)
        if record is None:
            raise ValueError("blank frame")
        return record


def _seconds(value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1e12 else 0.0  # type: ignore[operator]  # a number
