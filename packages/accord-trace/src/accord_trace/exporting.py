"""Writes records in the format of Rust's trace viewer (R-TRACE-02)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import UNSET

from accord_trace.records import Record

_encode = msgspec.json.encode


def jsons_line(record: Record) -> bytes | None:
    """Return the line of a record; None for what the format cannot have."""
    ends = b'"from":%b,"to":%b' % (_encode(record.sender), _encode(record.receiver))
    number = b"" if record.id is UNSET else b',"id":%b' % record.id
    match record.type:
        case "request" | "notification":
            return b'{"type":"%b","ts":%b,"protocol":%b,%b%b,"method":%b,"params":%b}\n' % (
                record.type.encode(),
                _encode(record.ts),
                _encode(record.protocol),
                ends,
                number,
                _encode(record.method),
                b"null" if record.params is UNSET else record.params,
            )
        case "response":
            return b'{"type":"response","ts":%b,%b%b,"is_error":%b,"payload":%b}\n' % (
                _encode(record.ts),
                ends,
                number,
                b"true" if record.is_error else b"false",
                b"null" if record.payload is UNSET else record.payload,
            )
        case _:
            return None


def jsons_lines(records: Iterable[Record]) -> Iterator[bytes]:
    """Yield the lines of a recording, one for each message on each hop."""
    for record in records:
        line = jsons_line(record)
        if line is not None:
            yield line
