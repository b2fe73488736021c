"""The content of tool calls in version 1, where every update replaces all of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from accord import v1
from accord.types.convert_v1 import tool_content_to_wire
from accord.types.tool_calls import TerminalView, ToolContent

MIN_INTERVAL_S = 0.1  # between two updates of one tool call's content
MAX_CHARS_PER_S = 1_000_000  # longer content is sent less often


class ToolContentBuffer:
    """The content of one tool call; `has_unsent` if some of it has not been sent."""

    def __init__(self) -> None:
        self._items: list[
            v1.ToolCallContent | list[str]
        ] = []  # a list is text that can be continued
        self._chars = 0
        self._sent_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def replace(self, items: Iterable[ToolContent]) -> None:
        """Replace the content."""
        self._items = []
        self._chars = 0
        for item in items:
            self.add(item, continues=False)

    def add(self, item: ToolContent, *, continues: bool) -> None:
        """Append an item."""
        self._chars += _char_count(item)
        if type(item) is not str:  # text with annotations is an item of its own
            self._items.append(tool_content_to_wire(item))
        elif continues and self._items and isinstance(last := self._items[-1], list):
            last.append(item)
        else:
            self._items.append([item])

    def content(self) -> list[v1.ToolCallContent]:
        """Return the content."""
        found: list[v1.ToolCallContent] = []
        for item in self._items:
            if isinstance(item, list):
                text = "".join(item)
                item[:] = [text]
                found.append(v1.Content(content=v1.TextContent(text=text)))
            else:
                found.append(item)
        return found

    @property
    def has_unsent(self) -> bool:
        """Whether content waits to be sent."""
        return self._timer is not None

    def postpone(self, send: Callable[[], None]) -> bool:
        """Return True if sending is postponed; `send` runs when the interval is over."""
        if self._timer is None:
            if self._sent_at is None:
                return False
            loop = asyncio.get_running_loop()
            wait_s = (
                self._sent_at + max(MIN_INTERVAL_S, self._chars / MAX_CHARS_PER_S) - loop.time()
            )
            if wait_s <= 0:
                return False
            self._timer = loop.call_later(wait_s, send)
        return True

    def mark_sent(self) -> None:
        """Record that all content is being sent."""
        self._sent_at = asyncio.get_running_loop().time()
        self.cancel_timer()

    def cancel_timer(self) -> None:
        """Cancel the postponed sending."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class ToolContentBuffers:
    """The content of all open tool calls of a connection."""

    def __init__(self, send: Callable[[str, str], None]) -> None:
        self._send = send  # sends the content of one tool call
        self._buffers: dict[str, dict[str, ToolContentBuffer]] = {}
        self.unsent_sessions: dict[
            str, dict[str, None]
        ] = {}  # by session, in the order they became it

    def buffer(self, session_id: str, tool_id: str) -> ToolContentBuffer:
        """Return the buffer of a tool call."""
        return self._buffers.setdefault(session_id, {}).setdefault(tool_id, ToolContentBuffer())

    def add(self, session_id: str, tool_id: str, item: ToolContent, *, continues: bool) -> bool:
        """Append an item; return whether to send the content now."""
        tool = self.buffer(session_id, tool_id)
        tool.add(item, continues=continues)
        # A client can only show a terminal that it knows, so this is not postponed.
        if isinstance(item, TerminalView) or not tool.postpone(
            lambda: self._send(session_id, tool_id)
        ):
            return True
        self.unsent_sessions.setdefault(session_id, {})[tool_id] = None
        return False

    def unsent(self, session_id: str) -> tuple[str, ...]:
        """Return the tool calls of a session that have unsent content."""
        return tuple(self.unsent_sessions.get(session_id, ()))

    def has_unsent(self, session_id: str) -> bool:
        """Return whether a tool call of a session has unsent content."""
        return session_id in self.unsent_sessions

    def is_unsent(self, session_id: str, tool_id: str) -> bool:
        """Return whether a tool call has unsent content."""
        return tool_id in self.unsent_sessions.get(session_id, ())

    def take_content(self, session_id: str, tool_id: str) -> list[v1.ToolCallContent]:
        """Return the content of a tool call, to be sent at once."""
        tool = self.buffer(session_id, tool_id)
        tool.mark_sent()
        late = self.unsent_sessions.get(session_id)
        if late is not None:
            late.pop(tool_id, None)
            if not late:
                del self.unsent_sessions[session_id]
        return tool.content()

    def drop(self, session_id: str, tool_id: str) -> None:
        """Drop a tool call that has ended."""
        tools = self._buffers.get(session_id, {})
        if (tool := tools.pop(tool_id, None)) is not None:
            tool.cancel_timer()
        if not tools:
            self._buffers.pop(session_id, None)

    def drop_session(self, session_id: str) -> None:
        """Drop the tool calls of a session that has ended."""
        for tool in self._buffers.pop(session_id, {}).values():
            tool.cancel_timer()
        self.unsent_sessions.pop(session_id, None)


def _char_count(item: Any) -> int:
    if isinstance(item, str):
        return len(item)
    fields = (getattr(item, name) for name in item.__struct_fields__)
    return sum(len(field) for field in fields if isinstance(field, str | bytes))
