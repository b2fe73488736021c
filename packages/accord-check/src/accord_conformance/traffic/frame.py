"""A frame: the input of the observer."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

# A proxy and its conductor are sides, too; they are judged by scenarios of their own.
Side: TypeAlias = Literal["agent", "client", "proxy", "conductor"]
# What carries the frames.
Medium: TypeAlias = Literal["stdio", "websocket", "http"]


class Frame(Struct, frozen=True):
    """One JSON text (on stdio: one line) as its sender wrote it; `number` counts from 1."""

    number: int
    time: float  # in seconds, from any start
    sender: Side
    text: bytes


_OTHER: dict[Side, Side] = {
    "agent": "client",
    "client": "agent",
    "proxy": "conductor",
    "conductor": "proxy",
}


def other(side: Side) -> Side:
    """Return the other side."""
    return _OTHER[side]
