"""What the script agent's commands have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from accord import Turn


class ScriptCommand(Struct, frozen=True):
    """A command; `run` gets the turn and the arguments, and returns a stop reason or None."""

    name: str
    arguments: str
    summary: str
    run: Callable[[Turn, str], Awaitable[str | None]]
    sends: str | tuple[str, ...]  # for the reference; one text for each alternative of `arguments`

    @property
    def usage(self) -> str:
        """The command with its arguments."""
        return f"{self.name} {self.arguments}".rstrip()


class UsageError(Exception):
    """The arguments of a command are invalid."""


def parse_number(word: str, *, default: int, minimum: int = 0, maximum: int) -> int:
    """Return a number, or the default for no word. Raises `UsageError`."""
    if not word:
        return default
    try:
        value = int(word)
    except ValueError:
        raise UsageError(f"Expected a number, got `{word}`.") from None
    if not minimum <= value <= maximum:
        raise UsageError(f"Expected a number from {minimum} to {maximum}, got `{word}`.")
    return value
