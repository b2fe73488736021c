"""A row of the table of requests, and one request as somebody made it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec import Struct

from accord_coder.models.embedded.place import Place
from accord_coder.models.embedded.recipe import Recipe

__all__ = ("Asked", "Effect", "Request", "Table")

Effect: TypeAlias = Literal["none", "read", "edit", "delete", "run"]
T = TypeVar("T")


class Asked(Struct, frozen=True):
    """What somebody asked for: what the slots of the form hold, and what can be used.

    `shown` is how it stands in a plan; `attached` are texts that came with the prompt, by the
    path or name that they go by; `tools` are the names of the tools, `table` has all requests.
    """

    request: Request
    held: dict[str, Any]
    shown: str
    tools: frozenset[str] = frozenset()
    attached: dict[str, str] = {}
    table: Table = {}

    def get(self, name: str, of: type[T]) -> T | None:
        """Return what a slot holds."""
        value = self.held.get(name)
        return value if isinstance(value, of) else None

    def text(self, name: str) -> str:
        """Return the text of a slot, "" when it is not there."""
        return self.get(name, str) or ""

    def place(self, name: str = "path") -> Place:
        """Return the place of a slot, by default the working directory."""
        return self.get(name, Place) or Place(".")

    def places(self, name: str = "paths") -> tuple[Place, ...]:
        """Return the places of a slot."""
        return self.held.get(name) or ()


class Request(Struct, frozen=True):
    """One thing that can be asked for, with all the ways to say it.

    `does` is for the documentation: a sentence. The first example is shown by `help`. `doubt`
    returns what is to be asked back before anything is begun, "" for nothing.
    """

    name: str
    does: str
    examples: tuple[str, ...]
    forms: tuple[str, ...]
    effect: Effect
    recipe: Callable[[Asked], Recipe]
    asks_back: bool = False  # it does nothing but say what is not clear
    doubt: Callable[[Asked], str] | None = None


# All requests by the titles of their families.
Table: TypeAlias = Mapping[str, tuple[Request, ...]]
