"""The pieces of texts in messages of agents."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Hashable
from typing import Any, NamedTuple

import msgspec

from accord.text.lenient_json import is_object

_MARKS = (b'_chunk"', b'"terminal_')  # in messages that may have a piece
_IDS = ("toolCallId", "terminalId")


class MessageText(NamedTuple):
    """A piece of text in a message."""

    stream: Hashable
    """The same for all pieces that belong together."""
    text: str


# Most pieces have this form, which is decoded in a third of the time.


class _Block(msgspec.Struct, gc=False):
    text: str


class _Update(msgspec.Struct, gc=False, rename="camel"):
    session_update: str
    content: _Block


class _Params(msgspec.Struct, gc=False, rename="camel"):
    session_id: str
    update: _Update


class _Message(msgspec.Struct, gc=False):
    params: _Params


_messages = msgspec.json.Decoder(_Message)


def text_in(frame: bytes | bytearray) -> MessageText | None:
    """Return the piece of text in a message; None if it has none."""
    if _MARKS[0] not in frame and _MARKS[1] not in frame:
        return None
    try:
        params = _messages.decode(frame).params
        stream = params.session_id, params.update.session_update
        return MessageText(stream, params.update.content.text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # another form
    place = _place_in(_decoded(frame))
    if place is None:
        return None
    owner, name, stream = place
    text: str = owner[name]
    if name == "data":
        try:
            text = base64.b64decode(text, validate=True).decode("utf-8", "surrogateescape")
        except (binascii.Error, ValueError):
            return None
    return MessageText(stream, text)


def with_text(frame: bytes | bytearray, text: str) -> bytes:
    """Return the message with another text in the place of its own."""
    message = _decoded(frame)
    place = _place_in(message)
    assert place is not None
    owner, name, _ = place
    if name == "data":
        text = base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()
    owner[name] = text
    return msgspec.json.encode(message)


def _decoded(frame: bytes | bytearray) -> Any:
    try:
        return msgspec.json.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _place_in(message: Any) -> tuple[dict[str, Any], str, Hashable] | None:
    """Return the object with the text, the name that it has there, and the stream."""
    params = message.get("params") if is_object(message) else None
    update = params.get("update") if is_object(params) else None
    if not is_object(params) or not is_object(update):
        return None
    content = update.get("content", update.get("output"))
    if is_object(content) and is_object(content.get("content")):
        content = content["content"]  # of a tool call
    owner = content if is_object(content) else update
    name = next((name for name in ("text", "data") if isinstance(owner.get(name), str)), None)
    if name is None:
        return None
    ids = (params.get("sessionId"), update.get("sessionUpdate"), *map(update.get, _IDS))
    return owner, name, tuple(str(each) for each in ids if each is not None)
