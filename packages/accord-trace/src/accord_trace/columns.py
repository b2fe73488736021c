"""The messages of a recording as columns of numbers: about 40 bytes each."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable
from typing import Final, TypeVar

from msgspec import UNSET, Struct

from accord.text.excerpt import one_line
from accord_trace.records import (
    Direction,
    Kind,
    Record,
    damaged_record,
    decode_header,
    decode_record,
)

KINDS: Final[tuple[Kind, ...]] = ("request", "response", "notification", "invalid", "end")
NONE: Final = 0xFFFFFFFF  # no row
_KIND_NUMBERS = {name: number for number, name in enumerate(KINDS)}
_REQUEST, _RESPONSE, _INVALID = 0, 1, 3
_BRACE, _OPENING = ord("}"), (b"{", b"[")
_TO_AGENT, _ERROR = 8, 16
_MAX_HEADS = 20_000  # that are remembered
_MAX_OPEN = 100_000  # requests that wait for their response
_MAX_PROBLEMS = 100
_MAX_SIZE = NONE - 1


_Name = TypeVar("_Name", bound=Hashable)


class Route(Struct, frozen=True):
    """The way of a message: its ends, and its connection."""

    sender: str
    receiver: str
    conn: str
    dir: str


# What all messages with an equal head have: flags, route, method, session.
_Head = tuple[int, int, int, int]


def kind_and_flags(flags: int) -> tuple[Kind, Direction, bool]:
    """Return the kind, the direction, and whether it is an error."""
    return (
        KINDS[flags & 7],
        "to_agent" if flags & _TO_AGENT else "to_client",
        bool(flags & _ERROR),
    )


def flag_table(fits: Callable[[Kind, Direction, bool], bool]) -> bytes:
    """Return 1 for each value of the flags that fits, for `bytes.translate`."""
    table = bytearray(256)
    for flags in range(256):
        if flags & 7 < len(KINDS):
            table[flags] = fits(*kind_and_flags(flags))
    return bytes(table)


class Columns:
    """One item per message in each array, in the order of the file.

    A line of Accord's writer is not decoded: its head has most values, and most heads repeat.
    """

    def __init__(self) -> None:
        self.offsets: array[int] = array("Q")  # of the lines, in all files as if they were one
        self.times: array[float] = array("d")  # in seconds
        self.flags: array[int] = array("B")  # kind, direction, error
        self.routes: array[int] = array("I")  # number in `route_names`
        self.methods: array[int] = array("I")  # for responses that of the request
        self.sessions: array[int] = array("I")
        self.sizes: array[int] = array("I")  # of the frames, in bytes
        self.pairs: array[int] = array("I")  # row of the request's response, and reverse
        self.method_names: list[str] = [""]
        self.session_names: list[str | None] = [None]  # 0: of no session
        self.route_names: list[Route] = []
        # The rows of requests that wait, by connection, ends and id.
        self.open: dict[tuple[str, str, str, bytes], int] = {}
        self.problems: list[str] = []
        self._method_numbers: dict[str, int] = {"": 0}
        self._session_numbers: dict[str | None, int] = {None: 0}
        self._route_numbers: dict[Route, int] = {}
        self._heads: dict[bytes, _Head] = {}
        # What is before the time and after it in the last line without an id.
        self._repeated: tuple[bytes, bytes, _Head] = (b"no line", b"", (0, 0, 0, 0))

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def arrays(self) -> tuple[array[int] | array[float], ...]:
        """The columns in the order in which they are saved."""
        return (
            self.offsets,
            self.times,
            self.flags,
            self.routes,
            self.methods,
            self.sessions,
            self.sizes,
            self.pairs,
        )

    def set_names(
        self, methods: Iterable[str], sessions: Iterable[str | None], routes: Iterable[Route]
    ) -> None:
        """Set the names that the columns refer to."""
        self.method_names, self.session_names = list(methods), list(sessions)
        self.route_names = list(routes)
        self._method_numbers = {name: at for at, name in enumerate(self.method_names)}
        self._session_numbers = {name: at for at, name in enumerate(self.session_names)}
        self._route_numbers = {route: at for at, route in enumerate(self.route_names)}

    def add_lines(self, lines: list[bytes], position: int) -> int:
        """Add lines that begin at a position in the files; return where they end."""
        begin, middle, (flags, route, method, session) = self._repeated
        time_at, middle_size = len(begin), len(middle)
        add_offset, add_time, add_size = self.offsets.append, self.times.append, self.sizes.append
        add_flags, add_route, add_pair = self.flags.append, self.routes.append, self.pairs.append
        add_method, add_session = self.methods.append, self.sessions.append
        for line in lines:
            # Most lines differ from an earlier one only in the time, the size and the body.
            if line.startswith(begin) and line.startswith(
                middle, rest_at := line.find(b",", time_at)
            ):
                size_at = rest_at + middle_size
                try:
                    ts = float(line[time_at:rest_at])
                    size = int(line[size_at : line.find(b",", size_at)])
                except ValueError:
                    ts, size = 0.0, -1
                if line[-1] == _BRACE and 0 <= size <= _MAX_SIZE:
                    add_offset(position)
                    add_time(ts)
                    add_flags(flags)
                    add_route(route)
                    add_method(method)
                    add_session(session)
                    add_size(size)
                    add_pair(NONE)
                else:
                    self._add_other(line, position)
            elif line:
                if not self._add_known(line, position):
                    self._add_other(line, position)
                begin, middle, (flags, route, method, session) = self._repeated
                time_at, middle_size = len(begin), len(middle)
            position += len(line) + 1
        return position

    def _add_known(self, line: bytes, position: int) -> bool:
        """Add a line of Accord's writer by its head; return False if it is something else."""
        # {"type":…,"ts":…,HEAD,"bytes":…,BODY}
        size_at = line.find(b',"bytes":')
        time_at = line.find(b',"ts":', 0, 40)
        rest_at = line.find(b",", time_at + 6, size_at)
        if rest_at < 0 or time_at < 0 or line[-1] != _BRACE:
            return False
        id_at = line.find(b',"id":', rest_at, size_at)
        number = b""
        if id_at < 0:
            key = line[:time_at] + line[rest_at:size_at]
        else:
            id_end = line.find(b',"method":', id_at, size_at)
            if id_end < 0:
                id_end = line.find(b',"is_error":', id_at, size_at)
            number = line[id_at + 6 : id_end]
            if id_end < 0 or number[:1] in _OPENING or b',"' in number:
                return False
            key = line[:time_at] + line[rest_at:id_at] + line[id_end:size_at]
        try:
            ts = float(line[time_at + 6 : rest_at])
            size = int(line[size_at + 9 : line.find(b",", size_at + 9)])
            head = self._heads.get(key) or self._learn(key, line)
        except ValueError:
            return False
        if head is None:
            return False
        if id_at < 0:
            self._repeated = line[: time_at + 6], line[rest_at : size_at + 9], head
        self._add(position, ts, size, head, number)
        return True

    def _learn(self, key: bytes, line: bytes) -> _Head | None:
        record = decode_record(line)
        if record is None:
            return None
        if len(self._heads) >= _MAX_HEADS:
            self._heads.clear()
        head = self._heads[key] = self._head_of(record)
        return head

    def _add_other(self, line: bytes, position: int) -> None:
        if not line.strip() or decode_header(line) is not None:
            return
        try:
            record = decode_record(line)
        except ValueError as exc:
            if len(self.problems) < _MAX_PROBLEMS:
                text = one_line(line[:500].decode("utf-8", "backslashreplace"), 60)
                self.problems.append(f"byte {position} is not a record: {exc}: {text}")
            record = damaged_record(line, ts=self.times[-1] if self.times else 0.0)
        if record is not None:
            number = b"" if record.id is UNSET else bytes(record.id)
            self._add(position, record.ts, record.bytes, self._head_of(record), number)

    def _head_of(self, record: Record) -> _Head:
        flags = _KIND_NUMBERS.get(record.type, _INVALID)
        if record.is_error or flags == _INVALID:
            flags |= _ERROR
        if record.dir == "to_agent":
            flags |= _TO_AGENT
        route = Route(record.sender, record.receiver, record.conn, record.dir)
        method = "" if record.method is UNSET else record.method
        return (
            flags,
            _number(self._route_numbers, self.route_names, route),
            _number(self._method_numbers, self.method_names, method),
            _number(self._session_numbers, self.session_names, record.session),
        )

    def _add(self, position: int, ts: float, size: int, head: _Head, number: bytes) -> None:
        flags, route, method, session = head
        row, pair = len(self.offsets), NONE
        kind = flags & 7
        if number and kind <= _RESPONSE:
            way = self.route_names[route]
            if kind == _REQUEST:
                if len(self.open) < _MAX_OPEN:
                    self.open[way.conn, way.sender, way.receiver, number] = row
            else:
                pair = self.open.pop((way.conn, way.receiver, way.sender, number), NONE)
                if pair != NONE:
                    self.pairs[pair] = row
                    method = self.methods[pair]
                    session = session or self.sessions[pair]
        self.offsets.append(position)
        self.times.append(ts)
        self.flags.append(flags)
        self.routes.append(route)
        self.methods.append(method)
        self.sessions.append(session)
        self.sizes.append(min(max(size, 0), _MAX_SIZE))
        self.pairs.append(pair)


def _number(numbers: dict[_Name, int], names: list[_Name], name: _Name) -> int:
    number = numbers.get(name)
    if number is None:
        number = numbers[name] = len(names)
        names.append(name)
    return number
