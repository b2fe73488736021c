"""The answer to `initialize`, which creates a connection."""

from __future__ import annotations

from contextlib import aclosing

from msgspec import Struct

from accord.errors import TransportError
from accord.transports.http_client import HttpResponse
from accord.transports.http_messages import read_incoming, version_of
from accord.transports.sse import EventReader


class Initialized(Struct, frozen=True):
    """The answer to `initialize`; `version` is None if it is an error."""

    frame: bytes
    connection_id: str | None
    version: int | None


async def read_initialized(
    response: HttpResponse, request_id: bytes | None, frame_bytes: int, where: str
) -> Initialized:
    """Read the answer in a response with status 2xx; raise `TransportError` without one."""
    if response.content_type == "text/event-stream":
        frame = await _first_answer(response, request_id, frame_bytes)
    else:
        frame = await response.read(frame_bytes)
    if len(frame) > frame_bytes:
        raise TransportError(f"{where}: the answer to initialize exceeds {frame_bytes} bytes")
    answer = read_incoming(frame)
    if answer is None or answer.method is not None or answer.id != request_id:
        raise TransportError(
            f"{where} did not answer initialize: this address is not that of an agent"
        )
    connection_id = response.header("Acp-Connection-Id")
    return Initialized(frame, connection_id, version_of(answer.body))


async def _first_answer(
    response: HttpResponse, request_id: bytes | None, frame_bytes: int
) -> bytes:
    reader = EventReader(frame_bytes)
    async with aclosing(response.chunks()) as chunks:
        async for chunk in chunks:
            for frame in reader.feed(chunk):
                incoming = read_incoming(frame)
                if incoming is not None and incoming.id == request_id:
                    return bytes(frame)
    return b""
