"""A frame: the input of the observer."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = ("Frame", "Medium", "Side", "other")

Side: TypeAlias = Literal["agent", "client"]
# What carries the frames.
Medium: TypeAlias = Literal["stdio", "websocket", "http"]


class Frame(Struct, frozen=True):
    """One JSON text (on stdio: one line) as its sender wrote it; `number` counts from 1."""

    number: int
    time: float  # in seconds, from any start
    sender: Side
    text: bytes


def other(side: Side) -> Side:
    """Return the other side."""
    return "agent" if side == "client" else "client"
