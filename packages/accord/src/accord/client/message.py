"""Growing messages, and the text of several of them.

Each chunk is joined only once, however often the text is read. CPython appends to a string in
place if it has only one reference, so strings are removed from their container before they grow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from msgspec import Struct

from accord.client.events import ContentChunk, Event, Role, Text, Thought, UserText
from accord.text.excerpt import excerpt
from accord.types.content import ContentBlock, text_of

_TEXT_EVENTS: dict[Role, type[Text] | type[Thought] | type[UserText]] = {
    "agent": Text,
    "thought": Thought,
    "user": UserText,
}

_MAX_REPR_CHARS = 60  # in a repr
_MAX_PARTS = 1024  # chunks of a message before they are joined


def merge_texts(contents: Iterable[ContentBlock]) -> tuple[ContentBlock, ...]:
    """Return content with consecutive texts joined, and empty ones removed."""
    whole: list[ContentBlock] = []
    texts: list[str] = []
    for content in contents:
        if isinstance(content, str):
            texts.append(content)
            continue
        if text := "".join(texts):
            whole.append(text)
        texts.clear()
        whole.append(content)
    if text := "".join(texts):
        whole.append(text)
    return tuple(whole)


def continuation(
    old: tuple[ContentBlock, ...], new: tuple[ContentBlock, ...]
) -> tuple[ContentBlock, ...] | None:
    """Return the part of new content that continues the old, None if it does not continue it."""
    if new[: len(old)] == old:
        # Text behind text would be one text.
        return new[len(old) :]
    *before, last = old
    if len(new) < len(old) or new[: len(before)] != tuple(before):
        return None
    further = new[len(before)]
    if isinstance(last, str) and isinstance(further, str) and further.startswith(last):
        return (further[len(last) :], *new[len(old) :])
    return None


class Message(Struct, gc=False, eq=False):
    """A message or thought; it can still grow.

    A transcript has thousands of them, so that the garbage collector tracks neither the message
    nor, once it is settled, anything in a message of text.
    """

    role: Role
    id: str | None
    _text: str = ""  # the text so far
    _whole: list[ContentBlock] | None = None  # the content so far; None if it is only the text
    _parts: list[ContentBlock] | None = None  # not joined yet

    @property
    def content(self) -> tuple[ContentBlock, ...]:
        """The content so far."""
        self.settle()
        if self._whole is not None:
            return tuple(self._whole)
        return (self._text,) if self._text else ()

    @property
    def text(self) -> str:
        """The text so far, with links and resources as Markdown."""
        self.settle()
        return self._text

    def append(self, content: ContentBlock) -> None:
        """Append content."""
        parts = self._parts
        if parts is None:
            if not self._text and self._whole is None and isinstance(content, str):
                self._text = content
            else:
                self._parts = [content]
            return
        parts.append(content)
        if len(parts) >= _MAX_PARTS:
            self.settle()

    def extend(self, texts: list[str]) -> None:
        """Append texts."""
        if self._parts is None:
            self._parts = list[ContentBlock](texts)
        else:
            self._parts += texts
        if len(self._parts) >= _MAX_PARTS:
            self.settle()

    def replace(self, content: tuple[ContentBlock, ...]) -> None:
        """Replace the content."""
        self._text, self._whole = "", None
        self._parts = list(content)
        self.settle()

    def settle(self) -> None:
        """Join the new chunks with the rest."""
        if not self._parts:
            return
        new = merge_texts(self._parts)
        self._parts = None
        for content in new:
            if self._whole is None and not isinstance(content, str):
                self._whole = [self._text] if self._text else []
            whole = self._whole
            continues = not whole or (isinstance(content, str) and isinstance(whole[-1], str))
            more = content if isinstance(content, str) else text_of((content,))
            text, self._text = self._text, ""
            if more and text and not continues:
                text += "\n"
            text += more
            self._text = text
            if whole is None:
                continue
            if whole and continues:
                last: Any = whole.pop()
                last += content
                whole.append(last)
            else:
                whole.append(content)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Message)
            and (self.role, self.id) == (other.role, other.id)
            and self.content == other.content
        )

    __hash__: ClassVar[None]  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        text = excerpt(self.text, _MAX_REPR_CHARS)
        return f"<Message of role {self.role!r}, {len(self.content)} parts: {text!r}>"


class AgentText:
    """The text of the agent from an item of a transcript on, joined when it is read."""

    __slots__ = ("_changes", "_first", "_last", "_next", "_taken", "_text")

    def __init__(self, first: int) -> None:
        self._first = first
        self._changes = 0
        self._start()

    def _start(self) -> None:
        self._next = self._first
        self._last: Message | None = None  # `_text` contains its first `_taken` characters
        self._taken = 0
        self._text = ""

    def read(self, items: Sequence[object], until: int | None, changes: int) -> str:
        """Return the text; `changes` is the number of changes of older messages."""
        if changes != self._changes:
            self._changes = changes
            self._start()
        end = len(items) if until is None else min(until, len(items))
        grown = [] if self._last is None else [self._last]
        for index in range(self._next, end):
            item = items[index]
            if isinstance(item, Message) and item.role == "agent":
                grown.append(item)
        self._next = max(self._next, end)
        text, self._text = self._text, ""
        for message in grown:
            if message is not self._last:
                self._last, self._taken = message, 0
            if more := message.text[self._taken :]:
                if text and not self._taken:
                    text += "\n\n"
                text += more
                self._taken += len(more)
        self._text = text
        return text


def message_events(message: Message) -> Iterator[Event]:
    """Return the shortest list of events that results in a message."""
    role, message_id = message.role, message.id
    content = message.content
    if not content:
        yield _TEXT_EVENTS[role]("", message_id)
    for part in content:
        if isinstance(part, str):
            yield _TEXT_EVENTS[role](part, message_id)
        else:
            yield ContentChunk(part, role, message_id)
