"""The records of a trace: one JSON object per line, with its message; requests and responses."""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from accord.text import lenient_json
from accord.text.excerpt import excerpt
from accord_trace.trace_file import TraceError

VERSION = 1  # of the format; readers skip unknown types and fields

Kind: TypeAlias = Literal["request", "response", "notification", "invalid", "end"]
Direction: TypeAlias = Literal["to_agent", "to_client"]

_PROXY = re.compile(r"Proxy\((\d+)\)")
_KINDS = frozenset(("request", "response", "notification", "invalid", "end"))
_BEGINNING = b'{"type":"'  # of the lines of records
_DAMAGED = "this line of the recording is damaged"


class Header(Struct, frozen=True, omit_defaults=True):
    """The first line of a recording: what was recorded, by what, and since when.

    `t` is the wall clock at second 0 of the records, as RFC 3339. `part` counts the files of a
    recording that was split by size.
    """

    t: str = ""
    version: int = VERSION
    program: str = ""
    argv: list[str] = []
    versions: dict[str, str] = {}
    redacted: bool = False
    part: int = 1


class Record(Struct, kw_only=True, eq=False):
    """One message on one hop, or the end of a side.

    `ts` is in seconds since the start of the recording, `bytes` the size of the frame as it was
    sent. `sender` and `receiver` are names of components: `Client`, `Proxy(0)`, …, `Agent`. `id`,
    `params` and `payload` are JSON text. A frame that is not a message has the kind `invalid`, and
    only `raw`.
    """

    type: str
    ts: float = 0.0
    protocol: str = "acp"
    sender: str = msgspec.field(default="", name="from")
    receiver: str = msgspec.field(default="", name="to")
    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    session: str | None = None
    is_error: bool = False
    dir: str = ""
    conn: str = ""
    bytes: int = 0
    redacted: bool = False
    params: Raw | UnsetType = UNSET
    payload: Raw | UnsetType = UNSET
    raw: str | UnsetType = UNSET
    reason: str = ""

    @property
    def frame(self) -> bytes:
        """The frame as it was sent, except for what was redacted; empty for an end."""
        if self.raw is not UNSET:
            try:
                return self.raw.encode("utf-8", "surrogateescape")
            except UnicodeEncodeError:
                return self.raw.encode("utf-8", "surrogatepass")
        if self.type == "end":
            return b""
        parts: list[bytes | Raw] = [b'{"jsonrpc":"2.0"']
        if self.id is not UNSET:
            parts += (b',"id":', self.id)
        if self.type == "response":
            payload = b"null" if self.payload is UNSET else self.payload
            parts += (b',"error":' if self.is_error else b',"result":', payload)
        else:
            parts += (b',"method":', msgspec.json.encode(self.method))
            if self.params is not UNSET:
                parts += (b',"params":', self.params)
        return b"".join((*parts, b"}"))

    def value(self) -> Any:
        """Return the params, the result or the error; None if it is missing or not JSON."""
        raw = self.payload if self.type == "response" else self.params
        if raw is UNSET:
            return None
        try:
            return lenient_json.loads(bytes(raw))
        except lenient_json.NotJson:
            return None

    @property
    def id_text(self) -> str:
        """The id as JSON text; empty for a message without one."""
        return "" if self.id is UNSET else bytes(self.id).decode("utf-8", "replace")


_decode = msgspec.json.Decoder(Record).decode
_decode_header = msgspec.json.Decoder(Header).decode


def decode_record(line: bytes) -> Record | None:
    """Return the record of a line; None for another type of line; raise `ValueError`."""
    try:
        record = _decode(line)
    except UnicodeDecodeError as exc:
        raise ValueError(str(exc)) from None
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    except msgspec.DecodeError as exc:
        # A lone surrogate, as JavaScript writes them, is JSON that msgspec rejects.
        try:
            record = _lenient(lenient_json.loads(line))
        except (lenient_json.NotJson, msgspec.ValidationError):
            raise ValueError(str(exc)) from None
        if record is None:
            raise ValueError(str(exc)) from None
    if record.type not in _KINDS or not _is_complete(record):
        return None
    return record


def decode_header(line: bytes) -> Header | None:
    """Return the header if the line is one; raise `TraceError` if its format is another one."""
    if not line.startswith(b'{"type":"header"'):
        return None
    try:
        header = _decode_header(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        header, version = Header(), _version_in(line)
    else:
        version = header.version
    if version != VERSION:
        by = f", written by {excerpt(header.program)}" if header.program else ""
        raise TraceError(
            f"The recording has version {excerpt(str(version))} of the format{by}; this version of "
            f"Accord reads version {VERSION}"
        )
    return header


def _version_in(line: bytes) -> object:
    """Return the version in a header with malformed fields; a malformed version is returned too."""
    try:
        value = lenient_json.loads(line)
    except lenient_json.NotJson:
        return VERSION  # damaged: the records tell
    return value.get("version", VERSION) if lenient_json.is_object(value) else VERSION


def damaged_record(line: bytes, *, ts: float = 0.0, direction: str = "") -> Record | None:
    """Return a message of neither side for a line that `decode_record` has refused.

    Return None for a line that does not begin as a record.
    """
    if not line.startswith(_BEGINNING):
        return None
    text = line.decode("utf-8", "surrogateescape")
    return Record(type="invalid", ts=ts, dir=direction, bytes=len(line), raw=text, reason=_DAMAGED)


def is_damaged(record: Record) -> bool:
    """Return whether a record is from `damaged_record`."""
    return record.type == "invalid" and record.reason == _DAMAGED and not record.sender


def component_place(name: str) -> float:
    """Return the place of a component in its chain, from the client to the agent."""
    proxy = _PROXY.fullmatch(name)
    if proxy is not None:
        return float(proxy[1])
    return -1.0 if name.lower() == "client" else float("inf")


def _is_complete(record: Record) -> bool:
    if record.type in ("request", "notification"):
        return record.method is not UNSET
    return record.type != "invalid" or record.raw is not UNSET


def _lenient(value: Any) -> Record | None:
    if not lenient_json.is_object(value):
        return None
    raw = {
        key: Raw(lenient_json.dumps(value.pop(key)))
        for key in ("id", "params", "payload")
        if key in value
    }
    record = msgspec.convert(value, Record)
    for key, text in raw.items():
        setattr(record, key, text)
    return record


# Pairs responses with their requests.


class Answered(Struct, frozen=True, eq=False):
    """The request of a response, and the seconds between them."""

    method: str
    seconds: float
    request: Record


class Pairing:
    """Pairs by connection, direction and id, while records are read in order.

    If the format has no connections (Rust's), the names of the ends decide.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[str, str, str, bytes], Record] = {}

    def add(self, record: Record) -> Answered | None:
        """Add the next record; return the request if the record is its response."""
        if record.id is UNSET:
            return None
        number = bytes(record.id)
        if record.type == "request":
            self._open[record.conn, record.sender, record.receiver, number] = record
        elif record.type == "response":
            key = (record.conn, record.receiver, record.sender, number)
            request = self._open.pop(key, None)
            if request is not None:
                method = "" if request.method is UNSET else request.method
                return Answered(method, max(record.ts - request.ts, 0.0), request)
        return None

    @property
    def unanswered(self) -> list[Record]:
        """The requests without a response so far."""
        return list(self._open.values())
