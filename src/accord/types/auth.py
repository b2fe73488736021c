"""Who is logged in, and where models come from."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = ("AuthAccount", "AuthState", "AuthStatus", "ProviderInfo")

AuthState: TypeAlias = Literal["authenticated", "unauthenticated", "not_required", "unknown"]


class AuthAccount(Struct, frozen=True):
    """Who is logged in, for display; keep it out of logs."""

    label: str
    active: bool | None = None
    name: str | None = None
    email: str | None = None
    organization: str | None = None


class AuthStatus(Struct, frozen=True):
    """Whether somebody is logged in to the agent, and as whom."""

    state: AuthState
    accounts: tuple[AuthAccount, ...] = ()


class ProviderInfo(Struct, frozen=True, kw_only=True):
    """A source of models; without `base_url` it is disabled, which a `required` one never is."""

    id: str
    supported: tuple[str, ...]  # the protocols that it may speak: anthropic, openai …
    required: bool = False
    api_type: str | None = None
    base_url: str | None = None
