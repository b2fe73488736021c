"""What a script is made of: acts, each with a name, what it takes, and what it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from accord import Turn

__all__ = ("Act", "Misused", "number")


class Act(Struct, frozen=True):
    """Something that the agent does when it is told to; `run` returns a stop reason or None."""

    name: str
    takes: str
    does: str
    run: Callable[[Turn, str], Awaitable[str | None]]

    @property
    def usage(self) -> str:
        """How to ask for it."""
        return f"{self.name} {self.takes}".rstrip()


class Misused(Exception):
    """An act was asked for with something that it does not take."""


def number(word: str, *, default: int, least: int = 0, most: int) -> int:
    """Return the number that a word says; raise `Misused`."""
    if not word:
        return default
    try:
        value = int(word)
    except ValueError:
        raise Misused(f"Expected a number, got `{word}`.") from None
    if not least <= value <= most:
        raise Misused(f"Expected a number from {least} to {most}, got `{word}`.")
    return value
