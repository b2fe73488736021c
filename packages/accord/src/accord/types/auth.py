"""Login status and model providers."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

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
