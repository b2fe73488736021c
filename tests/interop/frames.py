"""The frames that `tap.py` recorded, in a form that is equal on all connections of a chain."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Raw

CANCEL = "$/cancel_request"


class Frame(msgspec.Struct):
    """One message; the values are the bytes that were received."""

    id: Raw = Raw()
    method: str = ""
    params: Raw = Raw()
    result: Raw = Raw()
    error: Raw = Raw()


class Cancelled(msgspec.Struct, rename="camel"):
    request_id: Raw


class Message(msgspec.Struct, frozen=True):
    """A message without its id, which belongs to one connection."""

    direction: str
    method: str  # of the request, if it is a response
    kind: str
    value: bytes


def messages(frames: Path, direction: str) -> list[Message]:
    """Return the messages of one direction, `>` to the agent or `<` to the client."""
    return [message for message in _read(frames) if message.direction == direction]


def _read(frames: Path) -> Iterator[Message]:
    methods: dict[tuple[str, bytes], str] = {}  # by direction and id of the request
    for line in frames.read_bytes().splitlines():
        direction = line[:1].decode()
        frame = msgspec.json.decode(line[2:], type=Frame)
        number = bytes(frame.id)
        if not frame.method:
            method = methods[("<" if direction == ">" else ">", number)]
            kind = "result" if frame.result else "error"
            yield Message(direction, method, kind, bytes(frame.result or frame.error))
        elif frame.method == CANCEL:
            its = bytes(msgspec.json.decode(frame.params, type=Cancelled).request_id)
            yield Message(direction, frame.method, "notification", methods[direction, its].encode())
        else:
            if number:
                methods[direction, number] = frame.method
            kind = "request" if number else "notification"
            yield Message(direction, frame.method, kind, bytes(frame.params))
