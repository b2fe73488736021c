"""Redacts the updates of one session: its streams of text and output, and all other strings."""

from __future__ import annotations

from typing import Any

from accord.client.events import TerminalOutputChunk, Text, Thought, ToolCall, UserText
from accord.text.redact import Redactor, StreamRedactor
from accord.types.content import TextContent

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


_MAX_STREAMS = 1000  # of one session


class _Stream:
    """A stream, and the last event of it."""

    __slots__ = ("event", "is_fed", "redactor")

    def __init__(self, event: Any, redactor: StreamRedactor[Any]) -> None:
        self.event = event
        self.redactor = redactor
        self.is_fed = False  # by the update that is handled now

    def flush(self) -> list[Any]:
        """Return an event with what was held back, if there is any."""
        rest = self.redactor.flush() if self.redactor.holds else None
        if not rest:
            return []
        match event := self.event:
            case TerminalOutputChunk():
                return [TerminalOutputChunk(event.id, rest)]
            case ToolCall():
                return [ToolCall(id=event.id, content=(rest,), changed=("content",))]
            case _:
                return [type(event)(rest, event.message_id)]


class SessionRedaction:
    """What `redacted` has found out about the updates of one session.

    It is the `RedactedStreams` while the proxy handles an event of this session.
    """

    __slots__ = ("_is_tool_content", "_released", "_streams", "used")

    def __init__(self) -> None:
        self.used: Redactor | None = None  # by the update that is handled now
        self._is_tool_content = False  # the update appends to the content of a tool call
        self._released: list[Any] = []  # events to send before the update
        # All texts of a role are one stream, also those of several messages: a message can end
        # within a secret. The key has the type, the id of what grows, and the secrets.
        self._streams: dict[tuple[type, str, Redactor], _Stream] = {}

    def start(self, *, is_tool_content: bool) -> None:
        """Begin with an update."""
        self.used = None
        self._is_tool_content = is_tool_content
        for stream in self._streams.values():
            stream.is_fed = False

    def redacted_part(self, event: Any, found: Redactor) -> tuple[str, Any] | None:
        """Return the streamed field of an event, without the secrets (`RedactedStreams`)."""
        self.used = found
        match event:
            case Text() | Thought() | UserText():
                stream = self._stream(event, "", found)
                if stream.event.message_id != event.message_id:
                    self._released += stream.flush()
                return "text", self._feed(stream, event, event.text)
            case TerminalOutputChunk():
                if event.replaces:
                    self._streams.pop((TerminalOutputChunk, event.id, found), None)
                return "data", self._feed(self._stream(event, event.id, found), event, event.data)
            case ToolCall() if self._is_tool_content and len(event.content) == 1:
                shown = event.content[0]
                if not isinstance(shown, str):
                    return None
                stream = self._stream(event, event.id, found)
                return "content", (self._tool_text(stream, event, shown, found),)
            case _:
                return None

    def _tool_text(self, stream: _Stream, event: ToolCall, shown: str, found: Redactor) -> str:
        text: str = self._feed(stream, event, str(shown))
        if not isinstance(shown, TextContent):
            return text
        return TextContent(text, annotations=shown.annotations, meta=found.value(shown.meta))

    def _stream(self, event: Any, name: str, found: Redactor) -> _Stream:
        key: tuple[type, str, Redactor] = (event.__class__, name, found)
        stream = self._streams.get(key)
        if stream is None:
            is_data = isinstance(event, TerminalOutputChunk)
            stream = _Stream(event, found.data_stream() if is_data else found.text_stream())
            self._streams[key] = stream
            if len(self._streams) > _MAX_STREAMS:
                self._released += self._streams.pop(next(iter(self._streams))).flush()
        return stream

    @staticmethod
    def _feed(stream: _Stream, event: Any, part: Any) -> Any:
        stream.event, stream.is_fed = event, True
        return stream.redactor.feed(part)

    def flush(self) -> list[Any]:
        """Return events with what was held back, before an update of other streams passes."""
        released, self._released = self._released, []
        for stream in self._streams.values():
            if not stream.is_fed:
                released += stream.flush()
        return released

    def end_turn(self) -> list[Any]:
        """Return events with what was held back.

        The streams stay: the next turn can begin with the rest of a secret.
        """
        self.start(is_tool_content=False)
        return self.flush()
