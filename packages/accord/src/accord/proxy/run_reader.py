"""Finds runs in the frames that a connection receives."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Raw, Struct

from accord.jsonrpc.message import Message
from accord.jsonrpc.peer import CANCEL_REQUEST
from accord.proxy.dialects import SUCCESSOR, unwrap
from accord.proxy.runs import Run
from accord.text import lenient_json
from accord.transports.base import Frame

MIN_RUN = 4  # notifications; a shorter run is not worth the search
PARAMS = b',"params":'
_OBJECT = PARAMS + b"{"
_MAX_HEADS = 64  # a peer can name any number of methods
_MAX_HEAD_BYTES = 300

_decode_message = msgspec.json.Decoder(Message).decode
_decode_values = msgspec.json.Decoder(list[Raw]).decode
_encode_name = msgspec.json.Encoder().encode


class _Kind(Struct, frozen=True, gc=False):
    method: str
    is_wrapped: bool
    head: bytes
    begin: bytes  # of each notification of this kind: the head, and an object
    tail: bytes


def notification_head(envelope: str | None, method: str) -> bytes:
    """Return the text of a notification before its params; `envelope` is the method around it."""
    head = b'{"jsonrpc":"2.0","method":'
    if envelope is not None:
        head += _encode_name(envelope) + b',"params":{"method":'
    return head + lenient_json.dumps(method) + PARAMS


class RunReader:
    """Finds runs in what one connection receives.

    `unwraps` is True for a connection with two sides: there a notification to or from the successor
    is wrapped in another.
    """

    def __init__(self, *, unwraps: bool) -> None:
        self._unwraps = unwraps
        self._kinds: dict[bytes, _Kind | None] = {}

    def read(self, frames: Sequence[Frame], at: int) -> tuple[Run, bool] | None:
        """Return the run that begins with a frame, and whether it was wrapped; None if none does.

        Every notification in it is valid, and has params that are an object.
        """
        kind = self._kind_of(frames[at])
        if kind is None:
            return None
        begin, tail = kind.begin, kind.tail
        end = at
        for frame in frames[at:] if at else frames:
            if not (frame.startswith(begin) and frame.endswith(tail)):
                break
            end += 1
        if end - at < MIN_RUN:
            return None
        part = frames[at:end]
        first, last = len(kind.head), -len(tail)
        texts = [frame[first:last] for frame in part]
        text = b"[%b]" % b",".join(texts)
        try:
            values = _decode_values(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        # Otherwise one that is invalid could end in the next one.
        if list(map(len, values)) != list(map(len, texts)):
            return None
        return Run(kind.method, texts, part, kind.head, len(text)), kind.is_wrapped

    def _kind_of(self, frame: Frame) -> _Kind | None:
        head = self._head_of(frame)
        if head is None:
            return None
        try:
            return self._kinds[head]
        except KeyError:
            kind = self._new_kind(head)
            if len(self._kinds) < _MAX_HEADS:
                self._kinds[head] = kind
            return kind

    def _head_of(self, frame: Frame) -> bytes | None:
        """Return the text before the params, those within the envelope if there is one."""
        end = frame.find(_OBJECT, 0, _MAX_HEAD_BYTES)
        if end < 0:
            return None
        end += len(PARAMS)
        if self._unwraps and frame.startswith(b'{"method":', end):
            inner = frame.find(_OBJECT, end, end + _MAX_HEAD_BYTES)
            if inner > 0:
                end = inner + len(PARAMS)
        return bytes(frame[:end])

    def _new_kind(self, head: bytes) -> _Kind | None:
        """Return the kind of the notifications with a head; None if it is written differently."""
        for wrapped, tail in ((False, b"}"), (True, b"}}")):
            try:
                message = _decode_message(head + b"{}" + tail)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            method, envelope = message.method, None
            if method is UNSET or message.id is not UNSET:
                return None
            if wrapped:
                if not self._unwraps or method not in SUCCESSOR:
                    return None
                envelope = method
                method, _ = unwrap(message.params)
            elif self._unwraps and method in SUCCESSOR:
                return None
            if method == CANCEL_REQUEST or notification_head(envelope, method) != head:
                return None
            return _Kind(method, wrapped, head, head + b"{", tail)
        return None
