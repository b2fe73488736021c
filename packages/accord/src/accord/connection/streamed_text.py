"""Reads streamed text: notifications that differ from an earlier one only in one string.

A long message arrives as thousands of notifications with the same session, message and type.
Once one of them was decoded, the bytes before and after its text are known. A frame that begins
and ends with the same bytes, and has a JSON string in between, is the same notification with
another text, so only the string has to be decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from accord.connection.flood_log import FloodLog
from accord.connection.routes import Route, Routes
from accord.errors import DecodeError
from accord.jsonrpc.message import Message
from accord.transports.base import Frame

_MIN_FRAMES = 8  # of one read: fewer are not worth the search
_MAX_SKIPPED = 256  # reads without a search, if the last searches were of no use
_PROBE = "\N{SNOWMAN} another text"

_decode_message = msgspec.json.Decoder(Message).decode
_decode_text = msgspec.json.Decoder(str).decode
_encode_text = msgspec.json.Encoder().encode


class TextReceiver(Protocol):
    """Receives the texts of one stream."""

    text: str  # the last one

    def fits(self, method: str, params: Any, text: str) -> bool:
        """Return whether these params mean this text of the stream, and nothing else."""
        ...

    def receive(self, texts: list[str], sizes: list[int]) -> None:
        """Receive texts in order, and the sizes of their params in bytes."""
        ...

    @property
    def has_ended(self) -> bool:
        """Whether texts of this stream can no longer be received."""
        ...


class StreamedText:
    """Recognizes the frames of the stream that was decoded last."""

    __slots__ = (
        "_head",
        "_log",
        "_notifications",
        "_overhead",
        "_skip",
        "_skipped",
        "_tail",
        "offered",
        "receiver",
    )

    def __init__(self, flood_log: FloodLog) -> None:
        self._log = flood_log
        self._notifications: dict[str, Route] = {}
        self.offered: TextReceiver | None = None  # of the last text that was decoded
        self.receiver: TextReceiver | None = None
        self._head = b""
        self._tail = b""
        self._overhead = 0  # bytes of a frame in addition to its params
        self._skip = 0
        self._skipped = 0

    def serve(self, routes: Routes) -> None:
        """Forget the stream, and use these routes to recognize the next one."""
        self.offered = self.receiver = None
        self._notifications = routes.notifications

    def take(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        """Deliver the texts of the first frames, as long as they fit; return the other frames."""
        receiver = self.receiver
        if receiver is None:
            return frames
        if receiver.has_ended:
            self.receiver = None
            return frames
        head, tail, overhead = self._head, self._tail, self._overhead
        begin, end = len(head), -len(tail)
        texts: list[str] = []
        sizes: list[int] = []
        for frame in frames:
            if not (frame.startswith(head) and frame.endswith(tail)):
                break
            try:
                texts.append(_decode_text(frame[begin:end]))
            except (msgspec.DecodeError, UnicodeDecodeError):
                break
            sizes.append(len(frame) - overhead)
        if not texts:
            return frames
        self._skip = 0
        try:
            receiver.receive(texts, sizes)
        except Exception as exc:  # noqa: BLE001  # logged
            self._log.exception("! the receiver of streamed text failed", exc=exc)
            self.receiver = None
        return frames[len(texts) :]

    def search(self, frames: Sequence[Frame]) -> None:
        """Learn the form of the last frame if it contains the text that was decoded last."""
        offered, self.offered = self.offered, None
        if offered is None or len(frames) < _MIN_FRAMES:
            return
        if self._skipped < self._skip:
            self._skipped += 1
            return
        # Of no use until `take` finds a frame: with many streams at once it never does.
        self._skipped = 0
        self._skip = min(2 * self._skip + 1, _MAX_SKIPPED)
        frame = bytes(frames[-1])
        text = _encode_text(offered.text)
        head, found, tail = frame.rpartition(text)
        if not found or not tail:
            return
        probe = head + _encode_text(_PROBE) + tail
        try:
            message = _decode_message(probe)
            method = message.method
            if method is msgspec.UNSET or message.id is not msgspec.UNSET:
                return
            params = b"" if message.params is msgspec.UNSET else bytes(message.params)
            route = self._notifications.get(method)
            if route is None or not offered.fits(method, route.decode(params), _PROBE):
                return
        except (msgspec.DecodeError, UnicodeDecodeError, DecodeError, TypeError):
            return
        self.receiver = offered
        self._head, self._tail = head, tail
        self._overhead = len(probe) - len(params)
