"""Pairs responses with their requests."""

from __future__ import annotations

from msgspec import UNSET, Struct

from accord_trace.records import Record


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
