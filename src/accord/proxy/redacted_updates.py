"""Redacts the updates of one session: its streams of text and output, and all other strings."""

from __future__ import annotations

from typing import Any, cast

from accord.client.events import TerminalOutputChunk, Text, Thought, UserText
from accord.text.redact import Redactor, StreamRedactor

__all__ = ("KEPT_KEYS", "SessionRedaction")

# Ids and tags: they are compared, not read, so a change would break the session.
KEPT_KEYS = frozenset(
    (
        "compactionId",
        "currentModeId",
        "kind",
        "messageId",
        "optionId",
        "planId",
        "sessionId",
        "sessionUpdate",
        "state",
        "status",
        "terminalId",
        "toolCallId",
        "type",
    )
)


class SessionRedaction:
    """What `redacted` has found out about the updates of one session.

    It is the `RedactedStreams` while the proxy handles an event of this session.
    """

    __slots__ = ("_streams", "used")

    def __init__(self) -> None:
        self.used: Redactor | None = None  # by the update that is handled now
        # By type and id of what grows: the redactor, the secrets, and the event to repeat.
        self._streams: dict[tuple[type, str | None], tuple[StreamRedactor[Any], Redactor]] = {}

    def redacted_part(self, event: Any, found: Redactor) -> str | bytes:
        """Return the next part of a stream, without the secrets (`RedactedStreams`)."""
        self.used = found
        match event:
            case Text() | Thought() | UserText():
                return self._stream((type(event), event.message_id), found).feed(event.text)
            case TerminalOutputChunk():
                if event.replaces:
                    self._streams.pop((TerminalOutputChunk, event.id), None)
                return self._stream((TerminalOutputChunk, event.id), found).feed(event.data)
            case _:
                return ""

    def _stream(self, key: tuple[type, str | None], found: Redactor) -> StreamRedactor[Any]:
        known = self._streams.get(key)
        if known is None or known[1] is not found:
            is_data = key[0] is TerminalOutputChunk
            stream: Any = found.data_stream() if is_data else found.text_stream()
            self._streams[key] = stream, found
            return stream
        return known[0]

    def flush(self, event: Any = None) -> list[Any]:
        """Return events with what was held back, before another event passes."""
        if not self._streams:
            return []
        now: tuple[Any, Any] | None = None
        match event:
            case Text() | Thought() | UserText():
                now = type(event), event.message_id
            case TerminalOutputChunk():
                now = type(event), event.id
            case _:
                pass
        released: list[Any] = []
        for key, (stream, _) in self._streams.items():
            if key != now and stream.holds:
                kind, name = cast("tuple[Any, str | None]", key)
                rest = stream.flush()
                if not rest:
                    continue
                if kind is TerminalOutputChunk:
                    released.append(TerminalOutputChunk(name or "", rest))
                else:
                    released.append(kind(rest, name))
        return released

    def end_turn(self) -> list[Any]:
        """Return events with what was held back, and forget the streams."""
        released = self.flush()
        self._streams.clear()
        return released
