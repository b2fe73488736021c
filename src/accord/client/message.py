"""Growing messages, and the text of several of them.

Each chunk is joined only once, however often the text is read. CPython appends to a string in
place if it has only one reference, so strings are removed from their container before they grow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from accord.client.events import Role
from accord.text.excerpt import excerpt
from accord.types.content import ContentBlock, text_of

__all__ = ("AgentText", "Message", "continuation", "merge_texts")

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


class Message:
    """A message or thought; it can still grow."""

    __slots__ = ("_parts", "_shown", "_whole", "id", "role")

    def __init__(self, role: Role, message_id: str | None) -> None:
        self.role: Role = role
        self.id: str | None = message_id
        self._whole: list[ContentBlock] = []
        self._parts: list[ContentBlock] = []  # not joined yet
        self._shown: str | None = None  # the text; None if `_whole` is one text

    @property
    def content(self) -> tuple[ContentBlock, ...]:
        """The content so far."""
        self._merge()
        return tuple(self._whole)

    @property
    def text(self) -> str:
        """The text so far, with links and resources as Markdown."""
        self._merge()
        if self._shown is not None:
            return self._shown
        return self._whole[0] if self._whole else ""  # type: ignore[return-value]  # a text

    def append(self, content: ContentBlock) -> None:
        """Append content."""
        parts = self._parts
        parts.append(content)
        if len(parts) >= _MAX_PARTS:
            self._merge()

    def extend(self, texts: list[str]) -> None:
        """Append texts."""
        self._parts += texts
        if len(self._parts) >= _MAX_PARTS:
            self._merge()

    def replace(self, content: tuple[ContentBlock, ...]) -> None:
        """Replace the content."""
        self._whole.clear()
        self._parts = list(content)
        self._shown = None
        self._merge()

    def _merge(self) -> None:
        """Join the new chunks with the rest."""
        if not self._parts:
            return
        new = merge_texts(self._parts)
        self._parts.clear()
        whole = self._whole
        for content in new:
            continues = bool(whole) and isinstance(content, str) and isinstance(whole[-1], str)
            if self._shown is None and not isinstance(content, str):
                self._shown = text_of(tuple(whole))
            if self._shown is not None:
                shown, self._shown = self._shown, None
                more = content if isinstance(content, str) else text_of((content,))
                if more and shown and not continues:
                    shown += "\n"
                shown += more
                self._shown = shown
            if continues:
                text: Any = whole.pop()
                text += content
                whole.append(text)
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
