"""A client of the OpenAI API over one socket, that costs as little as possible.

Answers are read as bytes: chunks are counted by what each gateway writes for one. So the numbers
are those of the gateways, and not of a library for HTTP and JSON.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from dataclasses import dataclass, field

TEXT = b'"content":'
_SESSION = "acp-session-id"
_TIMEOUT_S = 120.0


@dataclass
class Answer:
    """What a request has come to; times are in seconds since it was sent."""

    status: int
    first_s: float = 0.0  # until the first chunk with text
    all_s: float = 0.0
    chunks: int = 0
    session: str | None = None  # to continue it by a header, in ours
    tail: bytes = field(default=b"", repr=False)


def request(
    port: int,
    model: str,
    prompt: str,
    *,
    stream: bool = True,
    token: str = "",
    session: str | None = None,
) -> bytes:
    """Return the bytes of a request, after which the server closes the connection."""
    messages = [{"role": "user", "content": prompt}]
    body = json.dumps({"model": model, "messages": messages, "stream": stream}).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *([] if session is None else [f"{_SESSION}: {session}"]),
    )
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def ask(port: int, sent: bytes) -> Answer:
    """Send a request, and read the answer."""
    with socket.create_connection(("127.0.0.1", port), _TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = _Reader()
        connection.sendall(sent)
        while data := connection.recv(1 << 18):
            reader.take(data)
    return reader.answer()


async def ask_async(port: int, sent: bytes) -> Answer:
    """Do the same beside others."""
    incoming, outgoing = await asyncio.open_connection("127.0.0.1", port)
    try:
        reader = _Reader()
        outgoing.write(sent)
        async with asyncio.timeout(_TIMEOUT_S):
            while data := await incoming.read(1 << 18):
                reader.take(data)
    finally:
        outgoing.close()
    return reader.answer()


class _Reader:
    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._first = 0.0
        self._chunks = 0
        self._status = 0
        self._session: str | None = None
        self._tail = b""
        self._rest = b""  # may be the beginning of a mark

    def take(self, data: bytes) -> None:
        data = self._rest + data
        if not self._status:
            head = data.partition(b"\r\n\r\n")[0]
            if len(head) == len(data):
                self._rest = data
                return
            self._status = int(head.split(b" ", 2)[1])
            for line in head.decode().split("\r\n"):
                name, _, value = line.partition(":")
                if name.lower() == _SESSION:
                    self._session = value.strip()
        found = data.count(TEXT) - data.count(TEXT + b'""') - data.count(TEXT + b' ""')
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            tail = data[whole:]
            found -= tail.count(TEXT) - tail.count(TEXT + b'""') - tail.count(TEXT + b' ""')
        self._rest = data[whole:]
        if found and not self._first:
            self._first = time.perf_counter() - self._began
        self._chunks += found
        self._tail = data[-400:]

    def answer(self) -> Answer:
        took = time.perf_counter() - self._began
        first = self._first or took
        return Answer(self._status, first, took, self._chunks, self._session, self._tail)
