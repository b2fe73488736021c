"""Finds the last handshake of a recording."""

from __future__ import annotations

from accord.text.lenient_json import is_object
from accord_inspector.messages import Messages

_LOOKED = 2000  # messages, from the end and from the start


def last_initialize(messages: Messages) -> int | None:
    """Return the number of the last `initialize` request; it is near the end or the start."""
    count = len(messages)
    for numbers in (
        range(count - 1, max(count - _LOOKED, 0) - 1, -1),
        range(min(_LOOKED, count) - 1, -1, -1),
    ):
        for n in numbers:
            row = messages.row(n)
            if row.kind == "request" and row.method == "initialize":
                return n
    return None


def spoken_version(messages: Messages) -> int:
    """Return the version of the protocol that the agent has chosen; 1 if that is unknown."""
    n = last_initialize(messages)
    pair = None if n is None else messages.row(n).pair
    value = None if pair is None else messages.record(pair).value()
    version = value.get("protocolVersion") if is_object(value) else None
    return version if version in (1, 2) else 1
