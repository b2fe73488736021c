"""What sessions have besides messages: plans, options, modes, commands, usage."""

from __future__ import annotations

from typing import Literal, TypeAlias

from accord.types.content import ContentBlock
from accord.types.validation import ValidatedStruct

__all__ = (
    "AvailableCommand",
    "BooleanOption",
    "ContextUsage",
    "Cost",
    "Implementation",
    "OptionChoice",
    "PlanEntry",
    "SelectOption",
    "SessionOption",
    "StopReason",
    "SystemPrompt",
    "TokenUsage",
)

# Others are an agent's own; `error` is v2's, with the error beside it.
StopReason: TypeAlias = (
    Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error"] | str
)


class Implementation(ValidatedStruct, frozen=True):
    """A program and its version; `title` is for the user, else `name`."""

    name: str
    version: str = "0"
    title: str | None = None


class SystemPrompt(ValidatedStruct, frozen=True):
    """What the model is told before all else, behind or in place of the agent's own words."""

    content: tuple[ContentBlock, ...]
    mode: Literal["append", "override"] | str = "append"

    @property
    def text(self) -> str:
        """Its words, each piece a paragraph."""
        return "\n\n".join(part for part in self.content if isinstance(part, str))


class PlanEntry(ValidatedStruct, frozen=True):
    """One step of a plan."""

    content: str
    status: Literal["pending", "in_progress", "completed", "cancelled"] | str = "pending"
    priority: Literal["high", "medium", "low"] | str = "medium"


class OptionChoice(ValidatedStruct, frozen=True):
    """One value of an option that the user chooses."""

    value: str
    name: str
    description: str | None = None
    group: str | None = None


class SelectOption(ValidatedStruct, frozen=True, kw_only=True, tag="select"):
    """An option with one of several values; category `mode` is the mode of the session."""

    id: str
    name: str
    value: str
    choices: tuple[OptionChoice, ...]
    description: str | None = None
    category: Literal["mode", "model", "model_config", "thought_level"] | str | None = None


class BooleanOption(ValidatedStruct, frozen=True, kw_only=True, tag="switch"):
    """An option that is on or off."""

    id: str
    name: str
    value: bool
    description: str | None = None
    category: str | None = None


SessionOption: TypeAlias = SelectOption | BooleanOption


class AvailableCommand(ValidatedStruct, frozen=True):
    """A command that the user can type after a slash; `hint` says what may follow."""

    name: str
    description: str
    hint: str | None = None


class Cost(ValidatedStruct, frozen=True):
    """What the session has cost so far."""

    amount: float
    currency: str = "USD"


class ContextUsage(ValidatedStruct, frozen=True):
    """How full the model's context is, in tokens."""

    used: int
    size: int
    cost: Cost | None = None


class TokenUsage(ValidatedStruct, frozen=True, kw_only=True):
    """What a piece of work took; whether v1 counts the turn or the session, it leaves open."""

    total: int
    input: int
    output: int
    thought: int | None = None
    cached_read: int | None = None
    cached_write: int | None = None
