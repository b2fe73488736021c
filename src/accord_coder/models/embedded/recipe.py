"""How a request is carried out: a generator that uses tools, gets their results, and speaks.

A recipe is started anew for each answer and is given the results so far; so it needs no memory
but the conversation, and goes on after the program was started again.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

from msgspec import Struct

from accord_coder.loop.messages import ToolResult

__all__ = ("Found", "Recipe", "Say", "Steps", "Think", "Use", "use")


class Use(Struct, frozen=True):
    """Use a tool, and go on with what came of it."""

    name: str
    arguments: dict[str, Any]


class Say(Struct, frozen=True):
    """Say something to the user: a paragraph of Markdown, or several."""

    text: str


class Think(Struct, frozen=True):
    """Think aloud."""

    text: str


Found: TypeAlias = tuple[ToolResult, ...]
# Uses are made in one answer; what comes back are their results, in their order.
Steps: TypeAlias = Generator[tuple[Use, ...] | Say | Think, Found, Any]
# What it returns: whether it was done; if not, what builds upon it is not begun.
Recipe: TypeAlias = Generator[tuple[Use, ...] | Say | Think, Found, bool]


def use(name: str, **arguments: Any) -> Generator[tuple[Use, ...], Found, ToolResult]:
    """Use one tool and return its result."""
    (result,) = yield (Use(name, arguments),)
    return result
