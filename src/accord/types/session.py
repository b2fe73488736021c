"""What sessions have besides messages: plans, options, modes, commands, usage."""

from __future__ import annotations

from typing import Literal, TypeAlias

from accord.types.content import Content
from accord.types.validation import Checked

__all__ = (
    "Choice",
    "Command",
    "Cost",
    "Info",
    "PlanEntry",
    "Select",
    "SessionOption",
    "StopReason",
    "Switch",
    "SystemPrompt",
    "Tokens",
    "Usage",
)

# Others are an agent's own; `error` is v2's, with the error beside it.
StopReason: TypeAlias = (
    Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error"] | str
)


class Info(Checked, frozen=True):
    """A program and its version; `title` is for the user, else `name`."""

    name: str
    version: str = "0"
    title: str | None = None


class SystemPrompt(Checked, frozen=True):
    """What the model is told before all else, behind or in place of the agent's own words."""

    content: tuple[Content, ...]
    mode: Literal["append", "override"] | str = "append"

    @property
    def text(self) -> str:
        """Its words, each piece a paragraph."""
        return "\n\n".join(part for part in self.content if isinstance(part, str))


class PlanEntry(Checked, frozen=True):
    """One step of a plan."""

    content: str
    status: Literal["pending", "in_progress", "completed", "cancelled"] | str = "pending"
    priority: Literal["high", "medium", "low"] | str = "medium"


class Choice(Checked, frozen=True):
    """One value of an option that the user chooses."""

    value: str
    name: str
    description: str | None = None
    group: str | None = None


class Select(Checked, frozen=True, kw_only=True, tag="select"):
    """An option with one of several values; category `mode` is the mode of the session."""

    id: str
    name: str
    value: str
    choices: tuple[Choice, ...]
    description: str | None = None
    category: Literal["mode", "model", "model_config", "thought_level"] | str | None = None


class Switch(Checked, frozen=True, kw_only=True, tag="switch"):
    """An option that is on or off."""

    id: str
    name: str
    value: bool
    description: str | None = None
    category: str | None = None


SessionOption: TypeAlias = Select | Switch


class Command(Checked, frozen=True):
    """A command that the user can type after a slash; `hint` says what may follow."""

    name: str
    description: str
    hint: str | None = None


class Cost(Checked, frozen=True):
    """What the session has cost so far."""

    amount: float
    currency: str = "USD"


class Usage(Checked, frozen=True):
    """How full the model's context is, in tokens."""

    used: int
    size: int
    cost: Cost | None = None


class Tokens(Checked, frozen=True, kw_only=True):
    """What a piece of work took; whether v1 counts the turn or the session, it leaves open."""

    total: int
    input: int
    output: int
    thought: int | None = None
    cached_read: int | None = None
    cached_write: int | None = None
