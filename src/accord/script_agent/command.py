"""What a script is made of: acts, each with a name, what it takes, and what it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from accord import Turn

__all__ = ("ScriptCommand", "UsageError", "parse_number")


class ScriptCommand(Struct, frozen=True):
    """Something that the agent does when it is told to; `run` returns a stop reason or None."""

    name: str
    takes: str
    does: str
    run: Callable[[Turn, str], Awaitable[str | None]]

    @property
    def usage(self) -> str:
        """How to ask for it."""
        return f"{self.name} {self.takes}".rstrip()


class UsageError(Exception):
    """An act was asked for with something that it does not take."""


def parse_number(word: str, *, default: int, minimum: int = 0, maximum: int) -> int:
    """Return the number that a word says; raise `Misused`."""
    if not word:
        return default
    try:
        value = int(word)
    except ValueError:
        raise UsageError(f"Expected a number, got `{word}`.") from None
    if not minimum <= value <= maximum:
        raise UsageError(f"Expected a number from {minimum} to {maximum}, got `{word}`.")
    return value
