"""HTTP/1.1 messages on a stream: heads, bodies and chunks, read and written as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from msgspec import Struct, field

_MAX_HEAD = 64 * 1024
_MAX_BODY = 80 * 1024 * 1024
_READ = 64 * 1024


class BadMessage(Exception):
    """The peer sent something that is not HTTP, or ended the connection within a message."""


class Headers:
    """The header fields of a message, in order; names are compared without case."""

    def __init__(self, fields: Iterable[tuple[str, str]] = ()) -> None:
        self.fields: list[tuple[str, str]] = list(fields)

    def get(self, name: str) -> str | None:
        """Return the first value of a field, None if there is none."""
        return next(iter(self.all(name)), None)

    def all(self, name: str) -> list[str]:
        """Return all values of a field."""
        return [value for found, value in self.fields if found.lower() == name.lower()]


class Head(Struct):
    """The first line of a message in its three parts, and the header fields."""

    first: str
    second: str
    third: str
    headers: Headers = field(default_factory=Headers)

    @property
    def status(self) -> int:
        """The status of a response."""
        return int(self.second)


class ByteReader:
    """Reads from a connection; bytes that were read too early can be put back."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._early = b""

    async def some(self) -> bytes:
        """Return the next bytes; none at the end."""
        if self._early:
            data, self._early = self._early, b""
            return data
        try:
            return await self._reader.read(_READ)
        except OSError:
            return b""

    def put_back(self, data: bytes) -> None:
        """Let the next call return these bytes first."""
        self._early = data + self._early

    async def until(self, mark: bytes, limit: int) -> bytes:
        """Return the bytes up to and with a mark."""
        data = b""
        while mark not in data:
            more = await self.some()
            if not more or len(data) > limit:
                if data or more:
                    raise BadMessage("the connection ended within a message")
                return b""
            data += more
        found, _, rest = data.partition(mark)
        self.put_back(rest)
        return found + mark

    async def exactly(self, size: int) -> bytes:
        """Return as many bytes."""
        parts: list[bytes] = []
        missing = size
        while missing:
            more = await self.some()
            if not more:
                raise BadMessage("the connection ended within a body")
            parts.append(more[:missing])
            self.put_back(more[missing:])
            missing -= len(parts[-1])
        return b"".join(parts)


async def read_head(reader: ByteReader) -> Head | None:
    """Read the head of a request or a response; None at the end of the connection."""
    data = await reader.until(b"\r\n\r\n", _MAX_HEAD)
    if not data:
        return None
    first, *lines = data[:-4].decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2:
        raise BadMessage(f"not the first line of an HTTP message: {first[:80]!r}")
    fields = [(name.strip(), value.strip()) for name, _, value in (x.partition(":") for x in lines)]
    return Head(words[0], words[1], words[2] if len(words) > 2 else "", Headers(fields))


async def read_body(reader: ByteReader, headers: Headers) -> bytes:
    """Read a body that has a length or comes in chunks; without either there is none."""
    if "chunked" in (headers.get("Transfer-Encoding") or "").lower():
        parts: list[bytes] = []
        while data := await read_chunk(reader):
            parts.append(data)
        return b"".join(parts)
    try:
        size = int(headers.get("Content-Length") or 0)
    except ValueError:
        raise BadMessage("the length of the body is not a number") from None
    if size > _MAX_BODY:
        raise BadMessage("the body is too long for this test")
    return await reader.exactly(size)


async def read_chunk(reader: ByteReader) -> bytes:
    """Read a chunk of a body; no bytes after the last one."""
    line = await reader.until(b"\r\n", _MAX_HEAD)
    try:
        size = int(line.split(b";")[0], 16)
    except ValueError:
        raise BadMessage("a chunk of the body has no length") from None
    data = await reader.exactly(size)
    await reader.until(b"\r\n", _MAX_HEAD)
    return data


def head_bytes(first: str, fields: Iterable[tuple[str, str]]) -> bytes:
    """Return a head as bytes."""
    lines = [first, *(f"{name}: {value}" for name, value in fields)]
    return "\r\n".join((*lines, "", "")).encode("latin-1")


def chunk(data: bytes) -> bytes:
    """Return data as a chunk; no data is the last chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)
