"""The messages of a recording in memory, while its files grow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import UNSET

from accord.trace.pairing import Pairing
from accord.trace.records import Record, decode_record
from accord.trace.trace import Trace, open_trace
from accord_inspector.rows import Row

__all__ = ("MemoryIndex",)


class MemoryIndex:
    """Reads a recording piece by piece; messages are numbered from 0."""

    def __init__(self, path: Path, *, grows: bool) -> None:
        self._path = path
        self._rows: list[Row] = []
        self._records: list[Record] = []
        self._numbers: dict[int, int] = {}  # of requests, by the identity of their records
        self._pairing = Pairing()
        self._trace: Trace | None = None if grows else open_trace(path)
        self._source: Iterator[Record] | None = None if grows else iter(self._trace or ())
        self._position = 0
        self._rest = b""

    def __len__(self) -> int:
        return len(self._rows)

    def advance(self, limit_bytes: int) -> bool:
        """Read more of the file; return True at its present end."""
        if self._source is not None:
            read = 0
            for record in self._source:
                self._add(record)
                read += record.bytes + 200
                if read >= limit_bytes:
                    return False
            self._source = iter(())
            return True
        with self._path.open("rb") as file:
            file.seek(self._position)
            data = file.read(limit_bytes)
        self._position += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                record = decode_record(line)
            except ValueError:
                continue
            if record is not None:
                self._add(record)
        return len(data) < limit_bytes

    def row(self, n: int) -> Row:
        """Return what the page lists of a message."""
        return self._rows[n]

    def record(self, n: int) -> Record:
        """Return a message."""
        return self._records[n]

    def text(self, n: int) -> str:
        """Return the frame of a message."""
        return self._records[n].frame.decode("utf-8", "replace")

    def close(self) -> None:
        """Close the files."""

    def _add(self, record: Record) -> None:
        n = len(self._rows)
        answered = self._pairing.add(record)
        request = None
        method = "" if record.method is UNSET else record.method
        session = record.session
        if answered is not None:
            request = self._numbers.pop(id(answered.request), None)
            method = answered.method
            session = session or answered.request.session
            if request is not None:
                self._rows[request].pair = n
        elif record.type == "request":
            self._numbers[id(record)] = n
        self._records.append(record)
        self._rows.append(
            Row(
                n=n,
                ts=record.ts,
                sender=record.sender,
                receiver=record.receiver,
                dir=record.dir,
                kind=record.type,
                method=method,
                session=session,
                id=record.id_text,
                bytes=record.bytes,
                pair=request,
                is_error=record.is_error or record.type == "invalid",
                conn=record.conn,
                seconds=None if answered is None else answered.seconds,
            )
        )
