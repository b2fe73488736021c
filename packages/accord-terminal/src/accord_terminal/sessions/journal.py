"""The journal of a session: lines of JSON, appended only, written before clients see them.

An entry is what happened at one time; a cursor is a place in the journal of one session.
`OthersAnswers` shows a client what others have answered and said in the turn of its prompt.
"""

from __future__ import annotations

import base64
import binascii
import os
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, structs

from accord.types.session import TokenUsage
from accord_terminal.sessions.records import (
    USAGE,
    Approvals,
    JournalError,
    Restored,
    SessionsError,
    now,
)
from accord_terminal.toolkit.text import one_line, steered_text

# Cursors of `watch`: a place in the journal of one session, as text for programs to keep.


class CursorError(SessionsError):
    """The text is not a cursor of this session."""

    status = USAGE


def cursor_of(record_id: str, seq: int) -> str:
    """Return the cursor after an entry: base64url of `[record id, sequence]`."""
    return base64.urlsafe_b64encode(msgspec.json.encode([record_id, seq])).decode().rstrip("=")


def place_of(cursor: str, record_id: str) -> int:
    """Return the sequence number of a cursor; raise `CursorError` for another session's."""
    try:
        data = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        record, seq = msgspec.json.decode(data, type=tuple[str, int])
    except (binascii.Error, UnicodeError, msgspec.MsgspecError, ValueError):
        raise CursorError(f"Expected a cursor of `accord session watch`, got {cursor!r}") from None
    if record != record_id or seq < 0:
        raise CursorError(f"The cursor belongs to the session {record}, not to {record_id}")
    return seq


# The entries of a journal: everything that happened in a session, in order.

# Who has answered, if no client has.
BY_RULE = "a rule of the session"
NOT_ASKED = "no client that could ask a user"
TURN_ENDED = "the end of the turn"


class _Entry(Struct, kw_only=True, omit_defaults=True, tag_field="kind"):
    """What all entries have: the sequence number, the time, the prompt whose turn it belongs to."""

    seq: int = 0
    at: str = ""
    prompt: str | None = None


class Updated(_Entry, tag="update"):
    """An update of the agent, as it was received; `session` is that of a subagent."""

    update: Raw
    session: str | None = None
    meta: Raw | UnsetType = UNSET


class Queued(_Entry, tag="queued"):
    """A prompt was submitted. `content` is in the form of the agent's protocol version.

    `detached` if no client waits for it, so that it runs also after the death of the owner.
    """

    content: Raw
    text: str  # its beginning, for lists
    by: str
    detached: bool = False
    approvals: Approvals = Approvals()


class Started(_Entry, tag="started"):
    """The turn of a prompt has begun."""

    by: str
    content: Raw


class Ended(_Entry, tag="ended"):
    """The turn of a prompt has ended; `error` if it failed, with the code of JSON-RPC.

    `stderr` has the last lines that the agent wrote in a failed turn.
    """

    stop_reason: str
    error: str | None = None
    code: int | None = None
    stderr: tuple[str, ...] = ()
    tokens: int | None = None
    usage: TokenUsage | None = None


class Steered(_Entry, tag="steered"):
    """A client has said something to the agent in a running turn; see `accord.Steered`.

    `prompt` is that of the turn. `content` is in the form of the agent's protocol version.
    """

    content: Raw
    text: str  # its beginning, for lists
    by: str
    outcome: str  # injected, queued by the agent, restarted, started


class Asked(_Entry, tag="asked"):
    """The agent asks for a permission, or for input."""

    request: str
    what: str  # permission, form, url
    title: str


class Answered(_Entry, tag="answered"):
    """A request of the agent has its answer; `by` is who answered first."""

    request: str
    by: str
    answer: str


class OptionsSet(_Entry, tag="options"):
    """A client has changed an option; `value` is the new one."""

    option: str
    value: str | bool
    by: str


class OwnerStarted(_Entry, tag="owner_started"):
    """A process has begun to hold the agent."""

    pid: int
    restored: Restored
    protocol: int
    agent: str
    details: dict[str, Any] = {}


class OwnerEnded(_Entry, tag="owner_ended"):
    """The process has let the agent go."""

    reason: str


Entry: TypeAlias = (
    Updated
    | Queued
    | Started
    | Ended
    | Steered
    | Asked
    | Answered
    | OptionsSet
    | OwnerStarted
    | OwnerEnded
)


_RECENT = 4096  # entries that are kept in memory, if they are small
_RECENT_BYTES = 4 << 20
_READ_BYTES = 1 << 20

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)


def _line(entry: Entry) -> bytes:
    try:
        return _encoder.encode(entry) + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair, which readers would refuse
        fields = {name: _whole(getattr(entry, name)) for name in entry.__struct_fields__}
        return _encoder.encode(structs.replace(entry, **fields)) + b"\n"


def _whole(value: Any) -> Any:
    """Return texts with replacement characters for halves of surrogate pairs."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case tuple():
            return tuple(map(_whole, cast("tuple[Any, ...]", value)))
        case _:
            return value


class JournalReader:
    """Reads the entries of a journal that another process may be writing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self._lines = 0

    def new_entries(self) -> Iterator[Entry]:
        """Yield the entries since the last call; an unfinished line waits for its end.

        Raises `JournalError` if the file cannot be read.
        """
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                while data := file.read(_READ_BYTES):
                    self._offset += len(data)
                    *lines, self._rest = (self._rest + data).split(b"\n")
                    for line in lines:
                        self._lines += 1
                        yield _decoded(line, self._path, self._lines)
        except FileNotFoundError:
            return
        except OSError as exc:
            raise JournalError(f"Cannot read the journal {self._path}: {exc.strerror}") from None


def _decoded(line: bytes, path: Path, number: int) -> Entry:
    """Return the entry of a line; its number counts, so a damaged line can be removed."""
    try:
        entry = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise JournalError(
            f"Cannot read line {number} of {path}: {exc}. Repair or remove the line, "
            "or close the session"
        ) from None
    entry.seq = number
    return entry


class Journal:
    """The journal in the process that writes it: at most one does, that with the lock."""

    def __init__(self, path: Path) -> None:
        """Open the journal, and remove a line that its last writer has not finished."""
        self._path = path
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self._fd = os.open(path, flags, 0o600)
        except OSError as exc:
            raise JournalError(f"Cannot open the journal {path}: {exc.strerror}") from None
        self._starts = array("Q")  # the offset of each entry
        self._end = 0
        self._recent: deque[Entry] = deque()
        self._collected: list[Entry] = []
        self._read()

    @property
    def last(self) -> int:
        """The sequence number of the last entry that is written; 0 if there is none."""
        return len(self._starts)

    @property
    def next(self) -> int:
        """The sequence number of the entry that is added next."""
        return len(self._starts) + len(self._collected) + 1

    def _read(self) -> None:
        rest = b""
        with self._path.open("rb") as file:
            while data := file.read(_READ_BYTES):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    number = len(self._starts) + 1
                    self._added(_decoded(line, self._path, number), len(line) + 1)
        if rest:
            os.ftruncate(self._fd, self._end)

    def append(self, entry: Entry) -> Entry:
        """Number and write an entry; raise `JournalError` if that fails, as on a full disk."""
        self.collect(entry)
        self.flush()
        return entry

    def collect(self, entry: Entry) -> None:
        """Number an entry, which `flush` or `append` writes with all that were collected."""
        entry.seq = self.next
        self._collected.append(entry)

    def flush(self) -> None:
        """Write what was collected; raise `JournalError` if that fails.

        Then as many are written as possible, and the others are dropped.
        """
        entries, self._collected = self._collected, []
        if not entries:
            return
        at = now()
        lines: list[bytes] = []
        for entry in entries:
            entry.at = entry.at or at  # an imported one has its time
            lines.append(_line(entry))
        if len(lines) > 1:
            with suppress(JournalError):
                self._write(b"".join(lines))
                for entry, line in zip(entries, lines, strict=True):
                    self._added(entry, len(line))
                return
        for number, (entry, line) in enumerate(zip(entries, lines, strict=True)):
            try:
                self._write(line)
            except JournalError:
                for dropped in entries[number:]:
                    dropped.seq = 0
                raise
            self._added(entry, len(line))

    def _write(self, data: bytes) -> None:
        """Write all or nothing."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as exc:
            os.ftruncate(self._fd, self._end)
            raise JournalError(f"Cannot write the journal {self._path}: {exc.strerror}") from None

    def _added(self, entry: Entry, size: int) -> None:
        """Count an entry, and forget old ones: the file has them."""
        self._starts.append(self._end)
        self._end += size
        recent = self._recent
        recent.append(entry)
        while len(recent) > _RECENT or (
            len(recent) > 1 and self._end - self._starts[-len(recent)] > _RECENT_BYTES
        ):
            recent.popleft()

    def after(self, seq: int, most: int) -> list[Entry]:
        """Return at most so many entries that follow an entry."""
        first_recent = self.last - len(self._recent) + 1
        if seq + 1 >= first_recent:
            skipped = seq + 1 - first_recent
            return list(islice(self._recent, skipped, skipped + most))
        stop = min(seq + most, self.last)
        begin = self._starts[seq]
        while stop > seq + 1 and self._offset(stop) - begin > _READ_BYTES:
            stop -= 1
        end = self._offset(stop)
        lines = os.pread(self._fd, end - begin, begin).split(b"\n")
        lines.pop()  # what follows the last line end
        return [_decoded(line, self._path, seq + n) for n, line in enumerate(lines, 1)]

    def _offset(self, seq: int) -> int:
        """Return where the entry after this one begins."""
        return self._starts[seq] if seq < self.last else self._end

    def sync(self) -> None:
        """Let the entries survive a power failure, too."""
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the file, whose entries survive a power failure if the disk allows it."""
        with suppress(OSError):
            self.sync()
        os.close(self._fd)


class OthersAnswers:
    """Serves `_accord/session/entry`: shows what others have said, and what they have answered."""

    def __init__(self, own_name: Callable[[], str], show: Callable[[str], None]) -> None:
        self._own_name = own_name
        self._show = show
        self._asked: dict[str, Mapping[str, Any]] = {}

    def __call__(self, params: Mapping[str, Any]) -> None:
        """Take notice of an entry of the journal."""
        entry = params["entry"]
        match entry.get("kind"):
            case "asked":
                self._asked[entry["request"]] = entry
            case "answered":
                asked = self._asked.pop(entry["request"], None)
                if asked is not None:
                    self._answered(asked["what"], one_line(asked["title"], 60), entry)
            case "steered" if entry["by"] != self._own_name():
                what = steered_text(entry["outcome"])
                self._show(f"{one_line(entry['by'], 40)} said: {one_line(entry['text'])} ({what})")
            case _:
                pass

    def _answered(self, what: str, title: str, entry: Mapping[str, Any]) -> None:
        by = entry["by"]
        if by == NOT_ASKED:
            if what != "permission":  # these are reported at the end of the turn
                self._show(f"the agent asked for input, which no client could give: {title}")
        elif by not in (self._own_name(), BY_RULE, TURN_ENDED):
            self._show(f"answered by {one_line(by, 40)}: {one_line(entry['answer'])} ({title})")
