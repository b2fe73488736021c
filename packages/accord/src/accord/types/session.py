"""Values of sessions: plans, config options, commands, usage, login status and model providers."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from accord.types.content import ContentBlock
from accord.types.validation import ValidatedStruct

# Agents can define further values. `error` exists only in v2, together with an error.
StopReason: TypeAlias = (
    Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error"] | str
)


class Implementation(ValidatedStruct, frozen=True):
    """A program and its version (`v1.Implementation`, `v2.Implementation`).

    Display `title`, or `name` if there is none.
    """

    name: str
    version: str = "0"
    title: str | None = None


class SystemPrompt(ValidatedStruct, frozen=True):
    """A system prompt of the client (`v1.SystemPrompt`, `v2.SystemPrompt`).

    It is appended to the system prompt of the agent, or replaces it.
    """

    content: tuple[ContentBlock, ...]
    mode: Literal["append", "override"] | str = "append"

    @property
    def text(self) -> str:
        """The text, with the parts as paragraphs."""
        return "\n\n".join(part for part in self.content if isinstance(part, str))


class PlanEntry(ValidatedStruct, frozen=True):
    """One entry of a plan (`v1.PlanEntry`, `v2.PlanEntry`)."""

    content: str
    status: Literal["pending", "in_progress", "completed", "cancelled"] | str = "pending"
    priority: Literal["high", "medium", "low"] | str = "medium"


class OptionChoice(ValidatedStruct, frozen=True):
    """One value of a select option."""

    value: str
    name: str
    description: str | None = None
    group: str | None = None


class SelectOption(ValidatedStruct, frozen=True, kw_only=True, tag="select"):
    """A config option with a list of choices; category `mode` is the mode of the session.

    `from_modes`: the agent of version 1 has modes instead, which the client presents as an option.
    """

    id: str
    name: str
    value: str
    choices: tuple[OptionChoice, ...]
    description: str | None = None
    category: Literal["mode", "model", "model_config", "thought_level"] | str | None = None
    from_modes: bool = False


class BooleanOption(ValidatedStruct, frozen=True, kw_only=True, tag="switch"):
    """A config option that is true or false."""

    id: str
    name: str
    value: bool
    description: str | None = None
    category: str | None = None


SessionOption: TypeAlias = SelectOption | BooleanOption


class AvailableCommand(ValidatedStruct, frozen=True):
    """A slash command (`v1.AvailableCommand`, `v2.AvailableCommand`).

    `hint` describes its argument.
    """

    name: str
    description: str
    hint: str | None = None


class Cost(ValidatedStruct, frozen=True):
    """The cost of the session so far (`v1.Cost`, `v2.Cost`)."""

    amount: float
    currency: str = "USD"


class ContextUsage(ValidatedStruct, frozen=True):
    """The used part and the size of the model's context, in tokens."""

    used: int
    size: int
    cost: Cost | None = None


class TokenUsage(ValidatedStruct, frozen=True, kw_only=True):
    """The tokens of a turn. In v1, agents may count the whole session instead."""

    total: int
    input: int
    output: int
    thought: int | None = None
    cached_read: int | None = None
    cached_write: int | None = None


AuthState: TypeAlias = Literal["authenticated", "unauthenticated", "not_required", "unknown"]


class AuthAccount(Struct, frozen=True):
    """An account, for display (`v1.AuthAccount`, `v2.AuthAccount`); keep it out of logs."""

    label: str
    active: bool | None = None
    name: str | None = None
    email: str | None = None
    organization: str | None = None


class AuthStatus(Struct, frozen=True):
    """Whether a user is logged in to the agent, and the accounts."""

    state: AuthState
    accounts: tuple[AuthAccount, ...] = ()


class ProviderInfo(Struct, frozen=True, kw_only=True):
    """A model provider (`v1.ProviderInfo`, `v2.ProviderInfo`).

    Without `base_url` it is disabled. A `required` provider cannot be disabled.
    """

    id: str
    supported: tuple[str, ...]  # the API types it supports: anthropic, openai …
    required: bool = False
    api_type: str | None = None
    base_url: str | None = None
