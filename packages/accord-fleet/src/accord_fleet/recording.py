"""The recording of one attempt: small ones stay in memory until they are stored.

Texts of agents arrive in pieces, so a secret may be in several messages: the first part finds the
piece of text in a message, and the second part records what is left of it.
"""

from __future__ import annotations

import base64
import binascii
import os
import zlib
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from accord.text.lenient_json import is_object
from accord.text.redact import MASK
from accord_fleet.agents import Direction
from accord_fleet.redaction import Redactor, SplitSecrets
from accord_fleet.types import WorkItem
from accord_trace import HopRecorder, Recording

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


_WAITING_BYTES = 64 * 1024  # an attempt without a result is repeated: its last frames may wait
_MEMORY_BYTES = 64 * 1024  # compressed; larger recordings are in a file
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


_Frame: TypeAlias = tuple[HopRecorder, float, Literal["to_agent", "to_client"], bytes]


class AttemptRecording:
    """Records the messages of an attempt; those of an earlier handshake are repeated in it."""

    def __init__(self, path: Path, item: WorkItem, redactor: Redactor) -> None:
        """`path` is where the file is, if the recording needs one."""
        self._redactor = redactor
        self._file = _Compressed(path)
        self._recording = Recording(
            path, argv=(item.task.id, item.agent, str(item.attempt)), file=self._file
        )
        self._hop: HopRecorder = self._recording.hop("Client", "Agent")
        self._waiting: list[_Frame] = []
        self._waiting_bytes = 0
        self._split = SplitSecrets(redactor.values, MASK, self._write)

    def repeat(self, handshake: Sequence[tuple[Direction, bytes]]) -> None:
        """Record a handshake that was before this attempt."""
        for direction, frame in handshake:
            self.frame(direction, frame)

    def next_connection(self) -> None:
        """Let the following messages be those of another connection."""
        self._hop = self._recording.hop("Client", "Agent")

    def frame(self, direction: Direction, frame: bytes | bytearray) -> None:
        """Record a message, without secrets, also if they arrive in pieces."""
        to = "to_agent" if direction == "sent" else "to_client"
        item = (self._hop, self._recording.now(), to, bytes(frame))
        if not self._redactor.values:
            self._write(item, None)
            return
        piece = text_in(frame) if direction == "received" else None
        if piece is None:
            self._split.add(item, len(frame))
        else:
            self._split.add(item, len(frame), stream=(self._hop, piece.stream), text=piece.text)

    def close(self) -> Path | bytes:
        """Return the whole recording: the path of its file, or its contents."""
        self._end()
        return self._file.contents()

    def close_to_file(self) -> Path:
        """Return the path of the whole recording; raise `OSError` if it cannot be written."""
        self._end()
        return self._file.path_of_file()

    def _end(self) -> None:
        self._split.flush()
        self._flush()
        self._recording.close()

    def _write(self, frame: _Frame, text: str | None) -> None:
        if text is not None:
            frame = (*frame[:3], with_text(frame[3], text))
        self._waiting.append(frame)
        self._waiting_bytes += len(frame[3])
        if self._waiting_bytes >= _WAITING_BYTES:
            self._flush()

    def _flush(self) -> None:
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        redact = self._redactor.data
        # One search in many frames takes less time than one in each.
        together = b"\n".join([frame[3] for frame in waiting])
        if redact(together) is not together:
            waiting = [(*frame[:3], bytes(redact(frame[3]))) for frame in waiting]
        self._recording.queue(waiting)
        self._recording.flush()


class _Compressed:
    """Lines, compressed: in memory, and from a size on in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._deflate = zlib.compressobj(1, zlib.DEFLATED, 31, 8)
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._fd = -1
        self._has_file = False

    def write(self, lines: bytes) -> None:
        """Compress lines."""
        self._add(self._deflate.compress(lines))

    def close(self) -> None:
        """Compress what is left."""
        try:
            self._add(self._deflate.flush())
        finally:
            self._close_file()

    def contents(self) -> Path | bytes:
        """Return the path of the file, or what is in memory."""
        return self._path if self._has_file else b"".join(self._waiting)

    def path_of_file(self) -> Path:
        """Return the path of the file, which is written now if there is none."""
        if not self._has_file:
            try:
                self._write_waiting()
            finally:
                self._close_file()
        return self._path

    def _add(self, data: bytes) -> None:
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if self._has_file or self._waiting_bytes >= _MEMORY_BYTES:
            self._write_waiting()

    def _close_file(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _write_waiting(self) -> None:
        if not self._has_file:
            self._fd = os.open(self._path, _FLAGS, 0o600)
            self._has_file = True
        data = memoryview(b"".join(self._waiting))
        self._waiting, self._waiting_bytes = [], 0
        while data:
            data = data[os.write(self._fd, data) :]
