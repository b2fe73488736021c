"""A growing message as parts for the page: HTML of its text, and its other content."""

from __future__ import annotations

from typing import Any

from accord.client.message import Message
from accord.text.excerpt import visible
from accord.text.markdown_html import MarkdownParts
from accord_inspector.talk.shown import contents_json

_MAX_MESSAGE_CHARS = 1_000_000  # of one text of a message


class MessageParts:
    """The parts of a message. All but the last stay as they are while the message grows."""

    __slots__ = ("_changed", "_contents", "_markdown", "_message", "_parts")

    def __init__(self, message: Message) -> None:
        self._message = message
        self.reset()

    def reset(self) -> None:
        """Start from the beginning: the content was replaced."""
        self._contents = 0  # number of contents that are complete
        self._markdown: MarkdownParts | None = None  # of the text that follows them
        self._parts: list[dict[str, Any]] = []
        self._changed: list[int] = []  # the clock's time for each part

    def since(self, time: int, now: int) -> tuple[int, list[dict[str, Any]]]:
        """Render what is new at the time `now`; return the parts that changed after `time`.

        The number is that of the first one.
        """
        self._render(now)
        first = len(self._parts)
        while first and self._changed[first - 1] > time:
            first -= 1
        return first, self._parts[first:]

    def _render(self, now: int) -> None:
        contents = self._message.content
        while self._contents < len(contents):
            content = contents[self._contents]
            if not isinstance(content, str):
                self._put(len(self._parts), contents_json([content]), now)
                self._contents += 1
                self._markdown = None
                continue
            if self._message.role == "user":
                start = len(self._parts) - (self._markdown is not None)
                self._markdown = self._markdown or MarkdownParts()  # one part, without Markdown
                self._put(start, [{"type": "plain", "text": visible(content[:_MAX_MESSAGE_CHARS])}], now)
            else:
                before = 0 if self._markdown is None else len(self._markdown.parts)
                self._markdown = self._markdown or MarkdownParts()
                start = len(self._parts) - before
                kept = self._markdown.update(content[:_MAX_MESSAGE_CHARS])
                new = [{"type": "text", "html": html} for html in self._markdown.parts[kept:]]
                self._put(start + kept, new, now)
            if self._contents == len(contents) - 1:
                return  # the last text can still grow
            self._contents += 1
            self._markdown = None

    def _put(self, start: int, parts: list[dict[str, Any]], now: int) -> None:
        """Replace the parts from `start` on, if they differ."""
        while parts and start < len(self._parts) and self._parts[start] == parts[0]:
            del parts[0]
            start += 1
        if parts or start < len(self._parts):
            del self._parts[start:], self._changed[start:]
            self._parts += parts
            self._changed += [now] * len(parts)
