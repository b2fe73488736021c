"""Makes the line of a recording from a frame: only the envelope of the message is decoded."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from accord.text import lenient_json
from accord_trace.records import Direction
from accord_trace.redaction import redacted_frame

_MAX_OPEN = 100_000  # requests whose session is remembered for their response
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")
_UPDATE: Final = b'{"jsonrpc":"2.0","method":"session/update","params":'
_UPDATE_OF_SESSION: Final = _UPDATE + b'{"sessionId":"'
_BACKSLASH: Final = ord("\\")
_TEXT: Final = b'"text":"'
_CHUNK: Final = b'_chunk"'
_CHUNK_NEAR: Final = 80  # bytes after the session's id, or at the end, that have the kind
_MAX_CHUNKS: Final = 4  # kinds of chunks that are remembered
_MAX_SESSIONS: Final = 1000
_SESSION_FIRST: Final = b'{"sessionId":"'


class _Envelope(Struct, gc=False):
    id: Raw | UnsetType = UNSET
    method: Raw | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _SessionOf(Struct, gc=False):
    session: Raw | UnsetType = msgspec.field(default=UNSET, name="sessionId")


class _Inner(Struct, gc=False):
    method: Raw
    params: Raw | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Envelope).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_session = msgspec.json.Decoder(_SessionOf).decode
_decode_inner = msgspec.json.Decoder(_Inner).decode


class Hop(Struct, frozen=True):
    """A connection between two components; `client` is the one nearer to the client."""

    client: str = "Client"
    agent: str = "Agent"
    conn: str = "0"


class LineBuilder:
    """Makes lines for both directions of one hop; it remembers the sessions of open requests."""

    def __init__(self, hop: Hop, *, redact: bool) -> None:
        self._redact = redact
        self._sessions: dict[tuple[Direction, bytes], bytes] = {}
        client, agent = msgspec.json.encode(hop.client), msgspec.json.encode(hop.agent)
        conn = msgspec.json.encode(hop.conn)
        self._ends: dict[Direction, bytes] = {
            "to_agent": b'"from":%b,"to":%b' % (client, agent),
            "to_client": b'"from":%b,"to":%b' % (agent, client),
        }
        self._place: dict[Direction, bytes] = {
            direction: b',"dir":"%b","conn":%b,"bytes":' % (direction.encode(), conn)
            for direction in self._ends
        }
        # Of the last kinds of chunks: what is before the text, what is after it, the fields between
        # the time and the size.
        self._chunks: dict[Direction, list[tuple[bytes, bytes, bytes]]] = {
            direction: [] for direction in self._ends
        }
        self._places: dict[tuple[Direction, bytes], bytes] = {}  # the fields, by session
        self._ts = 0.0
        self._ts_text = b"0.000000"
        self._updates: dict[Direction, bytes] = {
            direction: b'"protocol":"acp",%b,"method":"session/update","session":' % ends
            for direction, ends in self._ends.items()
        }

    def repeated(self, ts: float, direction: Direction, frame: bytes | bytearray) -> bytes | None:
        """Return the line of an update that differs from an earlier one in one text only.

        Most frames are such chunks of a message. Return None for other frames: use `line`.
        """
        chunks = self._chunks[direction]
        for chunk in chunks:
            start, end, middle = chunk
            if frame.startswith(start) and frame.endswith(end):
                break
        else:
            return None
        if chunk is not chunks[0]:  # the next one is probably of the same kind
            chunks.remove(chunk)
            chunks.insert(0, chunk)
        quote = len(frame) - len(end)
        if frame.find(b'"', len(start)) != quote:
            return None
        try:
            _decode_text(frame[len(start) - 1 : quote + 1])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        if ts != self._ts:
            self._ts, self._ts_text = ts, b"%.6f" % ts
        return b'{"type":"notification","ts":%b%b%d,"params":%b\n' % (
            self._ts_text,
            middle,
            len(frame),
            frame[len(_UPDATE) :],
        )

    def line(
        self,
        ts: float,
        direction: Direction,
        frame: bytes | bytearray,
        *,
        may_have_secrets: bool = True,
    ) -> bytes:
        """Return the line, with its line feed; of a blank frame nothing."""
        size = len(frame)
        changed = redacted_frame(frame) if self._redact and may_have_secrets else None
        if changed is not None:
            frame = changed
        try:
            message = _decode(frame)
            if not frame.isascii():
                frame.decode()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            message = _lenient(frame)
            if message is None:
                return self._invalid(ts, direction, frame, size)
        if (
            message.id is UNSET
            and message.params is not UNSET
            and frame.startswith(_UPDATE_OF_SESSION)
            and len(_UPDATE) + len(message.params) + 1 == len(frame)
            and (line := self._update(ts, direction, frame, size, changed is not None))
        ):
            return line
        tail = b"%b%d%b" % (
            self._place[direction],
            size,
            b',"redacted":true' if changed is not None else b"",
        )
        if message.method is not UNSET:
            return self._call(ts, direction, frame, message, tail)
        if message.id is not UNSET and (message.result is UNSET) is not (message.error is UNSET):
            return self._response(ts, direction, frame, message, tail)
        return self._invalid(ts, direction, frame, size)

    def end(self, ts: float, direction: Direction, reason: str = "") -> bytes:
        """Return the line for the end of the side that sends in this direction."""
        why = b',"reason":%b' % lenient_json.dumps(reason) if reason else b""
        return b'{"type":"end","ts":%.6f,%b%b0%b}\n' % (
            ts,
            self._ends[direction],
            self._place[direction],
            why,
        )

    def _update(
        self, ts: float, direction: Direction, frame: bytes | bytearray, size: int, redacted: bool
    ) -> bytes:
        """Return the line of an update, which most messages are; nothing if it needs more work."""
        start = len(_UPDATE_OF_SESSION)
        quote = frame.find(b'"', start)
        session = bytes(frame[start - 1 : quote + 1])
        if b"\n" in frame or b"\r" in frame:
            return b""
        middle = self._places.get((direction, session))
        if middle is None:
            if b"\\" in session:
                return b""
            if len(self._places) >= _MAX_SESSIONS:
                self._places.clear()
            middle = b",%b%b%b" % (self._updates[direction], session, self._place[direction])
            self._places[direction, session] = middle
        if not redacted and (
            frame.find(_CHUNK, quote, quote + _CHUNK_NEAR) >= 0
            or frame.find(_CHUNK, len(frame) - _CHUNK_NEAR) >= 0
        ):
            text = frame.find(_TEXT, quote) + len(_TEXT)
            quote = frame.find(b'"', text)
            if text > len(_TEXT) and frame[quote - 1] != _BACKSLASH:
                # It has no secrets: neither has one that differs in this text.
                self._remember(direction, bytes(frame[:text]), bytes(frame[quote:]), middle)
        if ts != self._ts:
            self._ts, self._ts_text = ts, b"%.6f" % ts
        return b'{"type":"notification","ts":%b%b%d%b,"params":%b\n' % (
            self._ts_text,
            middle,
            size,
            b',"redacted":true' if redacted else b"",
            frame[len(_UPDATE) :],  # with the bracket that ends the frame, and now the line
        )

    def _remember(self, direction: Direction, start: bytes, end: bytes, middle: bytes) -> None:
        chunks = self._chunks[direction]
        chunks.insert(0, (start, end, middle))
        del chunks[_MAX_CHUNKS:]

    def _call(
        self,
        ts: float,
        direction: Direction,
        frame: bytes | bytearray,
        message: _Envelope,
        tail: bytes,
    ) -> bytes:
        method = bytes(message.method)  # type: ignore[arg-type]  # checked by the caller
        if method[0] != 34:  # not a string
            return self._invalid(ts, direction, frame, len(frame))
        params = b"" if message.params is UNSET else bytes(message.params)
        shown = b',"params":%b' % params if params else b""
        if message.id is UNSET:
            kind, number = b"notification", b""
            expected = b'{"jsonrpc":"2.0","method":%b%b}' % (method, shown)
        else:
            kind, number = b"request", b',"id":%b' % message.id
            expected = b'{"jsonrpc":"2.0"%b,"method":%b%b}' % (number, method, shown)
        protocol = b"acp"
        is_same = frame == expected and b"\\" not in method  # a reader decodes the method
        if method == b'"mcp/message"' and params:
            inner = _inner_of(params)
            if inner is not None:
                # The message of MCP inside is shown, as in the format of Rust.
                protocol, is_same = b"mcp", False
                method = bytes(inner.method)
                shown = b"" if inner.params is UNSET else b',"params":%b' % inner.params
        session = _session_of(params)
        if number and session and len(self._sessions) < _MAX_OPEN:
            self._sessions[direction, number] = session
        line = b'{"type":"%b","ts":%.6f,"protocol":"%b",%b%b,"method":%b%b%b%b%b}\n' % (
            kind,
            ts,
            protocol,
            self._ends[direction],
            number,
            method,
            session,
            tail,
            b"" if is_same else _raw(frame),
            shown,
        )
        return line if is_same else _on_one_line(line)

    def _response(
        self,
        ts: float,
        direction: Direction,
        frame: bytes | bytearray,
        message: _Envelope,
        tail: bytes,
    ) -> bytes:
        number = b',"id":%b' % message.id
        if message.error is UNSET:
            is_error, key, payload = b"false", b"result", bytes(message.result)  # type: ignore[arg-type]  # one of them is set
        else:
            is_error, key, payload = b"true", b"error", bytes(message.error)
        asked: Direction = "to_client" if direction == "to_agent" else "to_agent"
        session = self._sessions.pop((asked, number), b"") or _session_of(payload)
        is_same = frame == b'{"jsonrpc":"2.0"%b,"%b":%b}' % (number, key, payload)
        line = b'{"type":"response","ts":%.6f,%b%b,"is_error":%b%b%b%b,"payload":%b}\n' % (
            ts,
            self._ends[direction],
            number,
            is_error,
            session,
            tail,
            b"" if is_same else _raw(frame),
            payload,
        )
        return line if is_same else _on_one_line(line)

    def _invalid(
        self, ts: float, direction: Direction, frame: bytes | bytearray, size: int
    ) -> bytes:
        if not frame.strip():
            return b""
        return b'{"type":"invalid","ts":%.6f,%b%b%d%b}\n' % (
            ts,
            self._ends[direction],
            self._place[direction],
            size,
            _raw(frame),
        )


def _lenient(frame: bytes | bytearray) -> _Envelope | None:
    """Return the envelope of a message that msgspec rejects: with lone surrogates, as from JS."""
    try:
        frame.decode()
        value = lenient_json.loads(frame)
        if not lenient_json.is_object(value):
            return None
        keys = _Envelope.__struct_fields__
        return _Envelope(
            **{key: Raw(lenient_json.dumps(value[key])) for key in keys if key in value}
        )
    except (lenient_json.NotJson, UnicodeDecodeError, RecursionError):
        return None


def _raw(frame: bytes | bytearray) -> bytes:
    text = bytes(frame).decode("utf-8", "surrogateescape")
    return b',"raw":%b' % lenient_json.dumps(text)


def _on_one_line(line: bytes) -> bytes:
    """Return a line without the line ends that a frame had between its tokens."""
    if line.count(b"\n") == 1 and b"\r" not in line:
        return line
    return line[:-1].translate(_ONE_LINE) + b"\n"


def _inner_of(params: bytes) -> _Inner | None:
    try:
        inner = _decode_inner(params)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return inner if bytes(inner.method)[:1] == b'"' else None


def _session_of(params: bytes) -> bytes:
    """Return the field `session` for the `sessionId` in a value."""
    if params.startswith(_SESSION_FIRST):
        end = params.find(b'"', len(_SESSION_FIRST))
        found = params[len(_SESSION_FIRST) - 1 : end + 1]
        if b"\\" not in found:
            return b',"session":%b' % found
    if b'"sessionId"' not in params:
        return b""
    try:
        session = _decode_session(params).session
    except (msgspec.DecodeError, UnicodeDecodeError):
        return b""
    if session is UNSET or bytes(session)[:1] != b'"':
        return b""
    return b',"session":%b' % session
