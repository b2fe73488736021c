"""Redacts the updates of one session: its streams of text and output, and all other strings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from accord.client.events import TerminalOutputChunk, Text, Thought, ToolCall, UserText
from accord.text.redact import Redactor, StreamRedactor
from accord.types.content import TextContent

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

    def flush(self, before: Any) -> Any:
        """Return what was held back, after what comes `before` it; None if there is nothing."""
        rest = self.redactor.feed(before) if before else None
        if self.redactor.holds:
            held = self.redactor.flush()
            rest = held if rest is None else rest + held
        return rest


def _flushed(streams: Iterable[tuple[Redactor, _Stream]]) -> list[Any]:
    """Return an event with what was held back, if there is any.

    These streams have the same parts, in the order of the calls of `redacted`: what one of them
    releases, the next ones read.
    """
    rest: Any = None
    event: Any = None
    for found, stream in streams:
        if stream.is_fed:  # it has read what comes after the rest
            if rest:
                rest = found.data(rest) if isinstance(rest, bytes) else found.text(rest)
        elif stream.redactor.holds or rest:
            rest = stream.flush(rest)
            event = event or stream.event
    if not rest:
        return []
    match event:
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
        self.used: list[Redactor] = []  # by the update that is handled now
        self._is_tool_content = False  # the update appends to the content of a tool call
        self._released: list[Any] = []  # events to send before the update
        # All texts of a role are one stream, also those of several messages: a message can end
        # within a secret. The key has the type and the id of what grows.
        self._streams: dict[tuple[type, str], dict[Redactor, _Stream]] = {}

    def start(self, *, is_tool_content: bool) -> None:
        """Begin with an update."""
        self.used = []
        self._is_tool_content = is_tool_content
        for streams in self._streams.values():
            for stream in streams.values():
                stream.is_fed = False

    def may_occur_in(self, json: bytes) -> bool:
        """Return False if no secret of this update can occur in the strings of a JSON text."""
        return any(found.may_occur_in(json) for found in self.used)

    def value(self, value: Any) -> Any:
        """Return builtin values without the secrets of this update."""
        for found in self.used:
            value = found.value(value, KEPT_KEYS)
        return value

    def redacted_part(self, event: Any, found: Redactor) -> tuple[str, Any] | None:
        """Return the streamed field of an event, without the secrets (`RedactedStreams`)."""
        self.used.append(found)
        match event:
            case Text() | Thought() | UserText():
                stream = self._stream(event, "", found)
                if stream.is_fed:  # `redacted` is called twice with these secrets
                    return None
                if stream.event.message_id != event.message_id:
                    self._released += self._flushed_from(event.__class__, stream)
                return "text", self._feed(stream, event, event.text)
            case TerminalOutputChunk():
                if event.replaces:
                    self._streams.get((TerminalOutputChunk, event.id), {}).pop(found, None)
                stream = self._stream(event, event.id, found)
                if stream.is_fed:
                    return None
                return "data", self._feed(stream, event, event.data)
            case ToolCall() if self._is_tool_content and len(event.content) == 1:
                shown = event.content[0]
                if not isinstance(shown, str):
                    return None
                stream = self._stream(event, event.id, found)
                if stream.is_fed:
                    return None
                return "content", (self._tool_text(stream, event, shown, found),)
            case _:
                return None

    def _tool_text(self, stream: _Stream, event: ToolCall, shown: str, found: Redactor) -> str:
        text: str = self._feed(stream, event, str(shown))
        if not isinstance(shown, TextContent):
            return text
        return TextContent(text, annotations=shown.annotations, meta=found.value(shown.meta))

    def _stream(self, event: Any, name: str, found: Redactor) -> _Stream:
        key: tuple[type, str] = (event.__class__, name)
        streams = self._streams.setdefault(key, {})
        stream = streams.get(found)
        if stream is None:
            is_data = isinstance(event, TerminalOutputChunk)
            stream = _Stream(event, found.data_stream() if is_data else found.text_stream())
            streams[found] = stream
            if len(self._streams) > _MAX_STREAMS:
                oldest = self._streams.pop(next(iter(self._streams)))
                self._released += _flushed(oldest.items())
            if len(streams) > _MAX_STREAMS:
                self._released += self._flushed_from(event.__class__, stream)
                del streams[next(iter(streams))]
        return stream

    def _flushed_from(self, kind: type, first: _Stream) -> list[Any]:
        """Return what a stream of text holds back, through those that read what it releases."""
        streams = list(self._streams[kind, ""].items())
        at = next(n for n, (_, stream) in enumerate(streams) if stream is first)
        return _flushed(streams[at:])

    @staticmethod
    def _feed(stream: _Stream, event: Any, part: Any) -> Any:
        stream.event, stream.is_fed = event, True
        return stream.redactor.feed(part)

    def flush(self) -> list[Any]:
        """Return events with what was held back, before an update of other streams passes."""
        released, self._released = self._released, []
        for streams in self._streams.values():
            released += _flushed(streams.items())
        return released

    def end_turn(self) -> list[Any]:
        """Return events with what was held back.

        The streams stay: the next turn can begin with the rest of a secret.
        """
        self.start(is_tool_content=False)
        return self.flush()
