"""Keeps the ids of an agent apart that has lost its context, and counts again from the beginning.

In the journal, both its first messages may be `message-1`. Clients get the earlier ones under
other ids; those of the present context stay, as the agent knows them.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import msgspec
from msgspec import Raw

from accord.text import lenient_json
from accord_terminal.sessions.entries import Entry, OwnerStarted, Updated

_IDS = frozenset(
    {
        "compactionId",
        "messageId",
        "planId",
        "recipientMessageId",
        "senderMessageId",
        "terminalId",
        "toolCallId",
    }
)
_OPAQUE = frozenset({"_meta", "rawInput", "rawOutput"})


class Contexts:
    """Where in the journal the contexts of the agent have begun."""

    def __init__(self) -> None:
        self._starts: list[int] = []

    def read(self, entry: Entry) -> None:
        """Take notice of an entry, in the order of the journal."""
        if isinstance(entry, OwnerStarted) and entry.restored in ("new", "lost"):
            self._starts.append(entry.seq)

    def update_of(self, entry: Updated) -> Raw:
        """Return the update of an entry; that of an earlier context has other ids."""
        number = bisect_right(self._starts, entry.seq)
        if number >= len(self._starts):
            return entry.update
        try:
            update = lenient_json.loads(bytes(entry.update))
        except lenient_json.NotJson:
            return entry.update
        return Raw(msgspec.json.encode(_renamed(update, f"context {number}: ")))


def _renamed(value: Any, prefix: str) -> Any:
    if isinstance(value, list):
        return [_renamed(item, prefix) for item in value]  # pyright: ignore[reportUnknownVariableType]  # JSON
    if not lenient_json.is_object(value):
        return value
    return {
        key: f"{prefix}{item}"
        if key in _IDS and isinstance(item, str)
        else item
        if key in _OPAQUE
        else _renamed(item, prefix)
        for key, item in value.items()
    }
