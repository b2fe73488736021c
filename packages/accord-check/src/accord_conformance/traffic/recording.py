"""Recordings: one JSON object per line, or plain dumps whose directions are guessed.

A record is `{"time": 0.25, "from": "client", "frame": "…"}`: seconds, the sender, and the frame as
text or as an object. `{"from": "agent", "end": true}` is the end of a side. Instead of `from`, a
record may have a `direction` from the view of the client: `sent` or `received`. In the first line,
`{"subject": "agent"}` names the judged side, if the other side broke rules on purpose.

Recordings of `accord trace` are read, too: of several connections, the first one of a client.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from accord.text import lenient_json
from accord.text.excerpt import excerpt, visible
from accord.text.lenient_json import is_array, is_object
from accord_conformance.traffic.connection_state import methods
from accord_conformance.traffic.message import Side, find_problems, other
from accord_trace.importing import import_records
from accord_trace.records import Record

# Guesses who wrote a frame of a plain dump.


class DirectionGuesser:
    """Guesses the sender of a frame: one side serves a method, and responses go back."""

    def __init__(self) -> None:
        self._open: dict[Side, dict[Any, tuple[str, int]]] = {"client": {}, "agent": {}}
        self._requests = 0

    def sender(self, value: Any) -> Side:
        """Return the likely sender; noise is from the agent's stdout."""
        if not is_object(value):
            return "agent"
        name, key = value.get("method"), repr(value.get("id"))
        if not isinstance(name, str):
            return self._response_sender(value, key)
        sender = sender_of_method(name, "id" in value)
        if sender is None:
            params = value.get("params")
            asked = repr(params.get("requestId")) if is_object(params) else ""
            is_agents = name == "$/cancel_request" and asked not in self._open["client"]
            sender = "agent" if is_agents and asked in self._open["agent"] else "client"
        if "id" in value:
            self._requests += 1
            self._open[sender][key] = name, self._requests
        return sender

    def _response_sender(self, value: dict[str, Any], key: str) -> Side:
        waiting: list[Side] = [side for side in ("client", "agent") if key in self._open[side]]
        if not waiting:
            return "agent"

        def unlikely(side: Side) -> tuple[int, int]:
            name, number = self._open[side][key]
            # An error fits every method; the later request is usually a part of the earlier one.
            return (self._mismatch_count(name, value) if "result" in value else 0, -number)

        asker = min(waiting, key=unlikely)
        del self._open[asker][key]
        return other(asker)

    def _mismatch_count(self, name: str, value: dict[str, Any]) -> int:
        """Return how badly a result fits a method, if both sides wait for this id."""
        found = [
            len(find_problems(method.result, value.get("result")))
            for version in (1, 2)
            for method in methods(version)
            if method.name == name and method.is_request
        ]
        return min(found, default=0)


def sender_of_method(name: str, is_request: bool) -> Side | None:
    """Return the side that calls a method; None if both do or the method is unknown."""
    found = {
        method.to
        for version in (1, 2)
        for method in methods(version)
        if method.name == name and method.is_request is is_request
    }
    if found == {"agent"}:
        return "client"
    return "agent" if found == {"client"} else None


# Recordings.

_SIDES: dict[str, Side] = {
    "client": "client",
    "agent": "agent",
    "sent": "client",
    "received": "agent",
    "out": "client",
    "in": "agent",
    "client-to-agent": "client",
    "agent-to-client": "agent",
    ">": "client",
    "<": "agent",
}
_PREFIXES: dict[bytes, Side] = {
    b"->": "client",
    b"<-": "agent",
    b">": "client",
    b"<": "agent",
    b"client:": "client",
    b"agent:": "agent",
}
_TRACE = b'{"type":"header"'
_MAX_TIME_S = 1e12  # clocks count seconds from 1970, or from the start of the machine
_EXPECTED = "expected records with `from` and `frame`, or a frame of JSON-RPC in each line"


class Recorded(Struct, frozen=True):
    """A frame, its sender and its time."""

    time: float
    sender: Side
    text: bytes


class End(Struct, frozen=True):
    """The end of a side."""

    sender: Side


class JudgedSide(Struct, frozen=True):
    """The judged side."""

    side: Side


def write(time: float, sender: Side, text: bytes | bytearray) -> bytes:
    """Return the line, with its line feed, that records a frame."""
    frame = bytes(text).decode("utf-8", "surrogateescape")
    record = {"time": round(time, 6), "from": sender, "frame": frame}
    return lenient_json.dumps(record) + b"\n"


def write_judged_side(side: Side) -> bytes:
    """Return the first line of a recording in which one side is judged."""
    return lenient_json.dumps({"subject": side}) + b"\n"


def read(
    lines: Iterable[bytes], unread: list[str] | None = None
) -> Iterator[Recorded | End | JudgedSide]:
    """Yield the records of a recording; raise `ValueError` at an invalid record.

    With `unread`, invalid lines are skipped and described there, unless all are invalid.
    """
    lines = list(lines)
    if lines and lines[0].startswith(_TRACE):
        yield from _of_trace(lines, unread)
        return
    rows = _rows(lines)
    if not any(row.is_record or _is_message(row.value) for row in rows):
        raise ValueError(f"{_EXPECTED}, got {_describe_content(rows)}")
    records = any(row.is_record for row in rows)
    wrong: list[str] = []
    guess, swapped = DirectionGuesser(), DirectionCheck()
    for row in rows:
        try:
            item = _record(row) if records else _plain(row, guess)
        except _InvalidRecord as no:
            message = f"line {row.number}: {no}"
            if unread is None:
                raise ValueError(message) from None
            wrong.append(message)
            continue
        if isinstance(item, Recorded) and (records or row.sender is not None):
            swapped.add(row, item)
        yield item
    swapped.raise_if_swapped()
    if unread is not None:
        if records and len(wrong) == len(rows):
            raise ValueError(wrong[0])
        unread += wrong


def _of_trace(lines: list[bytes], unread: list[str] | None) -> Iterator[Recorded | End]:
    """Yield the records of a recording of `accord trace`."""
    problems: list[str] = []
    conn: str | None = None
    for item in import_records(lines, problems):
        if not isinstance(item, Record):
            continue
        if conn is None and "Client" in (item.sender, item.receiver):
            conn = item.conn
        if item.conn != conn:
            continue
        sender: Side = "client" if item.dir == "to_agent" else "agent"
        yield End(sender) if item.type == "end" else Recorded(item.ts, sender, item.frame)
    if conn is None:
        why = f": {problems[0]}" if problems else ""
        raise ValueError(f"the recording has no messages of a client{why}")
    if problems and unread is None:
        raise ValueError(problems[0])
    if unread is not None:
        unread += problems


class _InvalidRecord(Exception):
    """An invalid record; the text is the reason."""


class _Row(Struct, frozen=True):
    """A line that is not blank; `value` is its JSON or that of its frame, if any."""

    number: int
    text: bytes
    sender: Side | None
    frame: bytes
    value: Any

    @property
    def is_record(self) -> bool:
        value = self.value
        return (
            self.sender is None
            and is_object(value)
            and "jsonrpc" not in value
            and ("frame" in value or "end" in value or "subject" in value)
            and "method" not in value
        )


def _rows(lines: Iterable[bytes]) -> list[_Row]:
    rows: list[_Row] = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if number == 1:
            text = text.removeprefix(codecs.BOM_UTF8)  # as written by editors on Windows
        if text:
            sender, frame = _prefixed(text)
            rows.append(_Row(number, text, sender, frame, _json(frame)))
    return rows


def _record(row: _Row) -> Recorded | End | JudgedSide:
    value = row.value
    if not row.is_record:
        what = "no JSON" if value is None else "no record"
        raise _InvalidRecord(
            f"expected a record with `from` and `frame`, got {what}: {_excerpt(row.text)}"
        )
    if "subject" in value and "frame" not in value:
        return JudgedSide(_side(value["subject"], "subject"))
    sender = _side(value.get("from", value.get("direction")), "from")
    if "frame" not in value:
        return End(sender)
    frame = value["frame"]
    text = _bytes(frame) if isinstance(frame, str) else lenient_json.dumps(frame)
    return Recorded(_seconds(value.get("time")), sender, text)


def _side(value: Any, key: str) -> Side:
    side = _SIDES.get(value) if isinstance(value, str) else None
    if side is None:
        raise _InvalidRecord(
            f'`{key}` is neither "client" nor "agent" but {_excerpt_of_value(value)}'
        )
    return side


def _seconds(value: Any) -> float:
    if value is None:
        return 0.0
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value <= _MAX_TIME_S
    ):
        raise _InvalidRecord(
            f"expected seconds, not below 0, as `time`, got {_excerpt_of_value(value)}"
        )
    return float(value)


def _bytes(frame: str) -> bytes:
    """Return the bytes of a frame from the text that `write` made of it."""
    try:
        return frame.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return frame.encode("utf-8", "surrogatepass")


def _plain(row: _Row, guess: DirectionGuesser) -> Recorded:
    return Recorded(0.0, row.sender or guess.sender(row.value), row.frame)


def _prefixed(text: bytes) -> tuple[Side | None, bytes]:
    for prefix, sender in _PREFIXES.items():
        if text.startswith(prefix) and text[len(prefix) :].lstrip()[:1] in b"{[":
            return sender, text[len(prefix) :].lstrip()
    return None, text


def _json(text: bytes) -> Any:
    try:
        return lenient_json.loads(text)
    except lenient_json.NotJson:
        return None


def _is_message(value: Any) -> bool:
    """Return whether a line may be a message, or a batch of messages."""
    first: Any = value[0] if is_array(value) and value else value
    return is_object(first) and not first.keys().isdisjoint(("jsonrpc", "method"))


def _describe_content(rows: list[_Row]) -> str:
    """Describe the content of a file that is not a recording."""
    if not rows:
        return "nothing: there are no frames"
    first, text = rows[0], b"\n".join(row.text for row in rows)
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or _is_utf16(first.text):
        return "UTF-16: save it as UTF-8"
    if b"\0" in text or not _is_utf8(text):
        return f"binary data in line {first.number}"
    what = "JSON that is neither" if first.value is not None or _json(text) is not None else "text"
    return f"{what} in line {first.number}: {_excerpt(first.text)}"


def _is_utf16(text: bytes) -> bool:
    """Return whether every second byte is zero, as in UTF-16 without a byte order mark."""
    halves = text[::2].count(0), text[1::2].count(0)
    return len(text) > 3 and max(halves) > len(text) // 3 and min(halves) == 0


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _excerpt(text: bytes) -> str:
    return visible(excerpt(text.decode("utf-8", "replace"), 60))


def _excerpt_of_value(value: Any) -> str:
    return _excerpt(lenient_json.dumps(value))


class DirectionCheck:
    """Counts messages whose method only the other side sends."""

    def __init__(self) -> None:
        self._right = 0
        self._wrong: list[str] = []

    def add(self, row: _Row, item: Recorded) -> None:
        """Add a frame whose sender is recorded."""
        value = _json(item.text)
        name = value.get("method") if is_object(value) else None
        if not is_object(value) or not isinstance(name, str):
            return
        writer = sender_of_method(name, "id" in value)
        if writer == item.sender:
            self._right += 1
        elif writer is not None:
            self._wrong.append(f"line {row.number} has {name} from the {item.sender}")

    def raise_if_swapped(self) -> None:
        """Raise `ValueError` if most messages are swapped."""
        if len(self._wrong) > max(1, self._right):
            count = f"{len(self._wrong)} of {len(self._wrong) + self._right} messages"
            raise ValueError(f"the directions look swapped in {count}: {self._wrong[0]}")
