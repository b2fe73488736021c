"""What a tool call shows in version 1, where every update replaces all of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from accord import v1
from accord.model.on_v1 import tool_content_to_wire
from accord.model.tools import ToolContent

__all__ = ("ShownTool",)

OFTEN_S = 0.1  # text that streams is sent at most every so often


class ShownTool:
    """The content so far; `is_late` when some of it has not been sent."""

    def __init__(self) -> None:
        self._items: list[v1.ToolCallContent | list[str]] = []  # a list is text that goes on
        self._sent_at = -OFTEN_S
        self._timer: asyncio.TimerHandle | None = None

    def replace(self, items: Iterable[ToolContent]) -> None:
        """Show this in place of everything."""
        self._items = []
        for item in items:
            self.add(item, goes_on=False)

    def add(self, item: ToolContent, *, goes_on: bool) -> None:
        """Show more."""
        if not isinstance(item, str):
            self._items.append(tool_content_to_wire(item))
        elif goes_on and self._items and isinstance(last := self._items[-1], list):
            last.append(item)
        else:
            self._items.append([item])

    def content(self) -> list[v1.ToolCallContent]:
        """Return all that is shown."""
        return [
            v1.Content(content=v1.TextContent(text="".join(item)))
            if isinstance(item, list)
            else item
            for item in self._items
        ]

    @property
    def is_late(self) -> bool:
        """Whether it waits to be sent."""
        return self._timer is not None

    def may_wait(self, send: Callable[[], None]) -> bool:
        """Tell whether to leave it to `send`, which is called when it is time."""
        loop = asyncio.get_running_loop()
        if self._timer is None:
            wait_s = self._sent_at + OFTEN_S - loop.time()
            if wait_s <= 0:
                return False
            self._timer = loop.call_later(wait_s, send)
        return True

    def sent(self) -> None:
        """It is being sent."""
        self._sent_at = asyncio.get_running_loop().time()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
