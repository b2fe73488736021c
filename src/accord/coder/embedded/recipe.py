"""How a request is carried out: a generator that uses tools, gets their results, and speaks.

A recipe is started anew for each answer and is given the results so far; so it needs no memory
but the conversation, and goes on after the program was started again.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

from msgspec import Struct

from accord.coder.conversation import ToolResult

__all__ = ("Recipe", "Say", "Use")


class Use(Struct, frozen=True):
    """Use a tool, and go on with what came of it."""

    name: str
    arguments: dict[str, Any]


class Say(Struct, frozen=True):
    """Say something to the user."""

    text: str


Recipe: TypeAlias = Generator[Use | Say, ToolResult | None, None]
