"""Mix-ins for agents with auth methods or with providers of models that users configure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from accord.agent.registry import connections_of
from accord.errors import AuthRequired, InvalidParams, TransportError
from accord.types.session import AuthAccount, AuthState, ProviderInfo

__all__ = (
    "AgentAuthMethod",
    "AuthAccount",
    "AuthState",
    "AuthenticationMixin",
    "ProviderInfo",
    "ProvidersMixin",
    "TerminalAuthMethod",
    "disable_known_provider",
    "overrides_auth_status",
    "set_validated_provider",
    "validated_login",
)


class AgentAuthMethod(Struct, frozen=True):
    """An auth method of type `agent`: the agent runs the login itself."""

    id: str
    name: str
    description: str | None = None


class TerminalAuthMethod(Struct, frozen=True):
    """An auth method of type `terminal`: the client runs the agent's command in a terminal.

    `args` and `env` are added to the command, which must exit when the user is logged in. It is
    advertised only to clients that support it.
    """

    id: str
    name: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    description: str | None = None


class AuthenticationMixin(ABC):
    """Mix-in for agents that require a login: `class MyAgent(AuthenticationMixin, Agent)`."""

    auth_methods: Sequence[AgentAuthMethod | TerminalAuthMethod] = ()

    @abstractmethod
    def is_logged_in(self) -> bool:
        """Return whether the user is logged in; must be fast, as every request calls it."""

    @abstractmethod
    async def login(self, login_id: str) -> None:
        """Log in by one of the `auth_methods` of type `agent`; raise if the login fails."""

    @abstractmethod
    async def logout(self) -> None:
        """Log out."""

    async def auth_status(self) -> tuple[AuthState, Sequence[AuthAccount]]:
        """Return whether a user is logged in, and the accounts."""
        return ("authenticated" if self.is_logged_in() else "unauthenticated"), ()

    async def notify_auth_status(self) -> None:
        """Send the auth status to the clients that have an older one (unstable).

        Call it when the status changes other than by a login or logout of a client. It is sent
        only by agents that are `unstable` or override `auth_status`, and only to clients that
        have asked for the status: others may not support it.
        """
        state, accounts = await self.auth_status()
        for connection in tuple(connections_of(self)):
            with suppress(TransportError):  # the client has just disconnected
                await connection.send_auth_status(state, tuple(accounts))

    def check_auth(self) -> None:
        """Raise `AuthRequired` unless the user is logged in."""
        if not self.is_logged_in():
            raise AuthRequired


async def validated_login(agent: AuthenticationMixin, login_id: str) -> None:
    """Log in; raise `InvalidParams` for a method that is not advertised (R-AUTH-09)."""
    if not any(
        isinstance(login, AgentAuthMethod) and login.id == login_id for login in agent.auth_methods
    ):
        raise InvalidParams("Unknown login", data={"methodId": login_id})
    await agent.login(login_id)


def overrides_auth_status(agent: AuthenticationMixin) -> bool:
    """Return whether an agent overrides `auth_status`."""
    return type(agent).auth_status is not AuthenticationMixin.auth_status


class ProvidersMixin(ABC):
    """Mix-in for agents whose providers of models the client configures, for later sessions."""

    @abstractmethod
    async def list_providers(self) -> Sequence[ProviderInfo]:
        """Return all providers."""

    @abstractmethod
    async def set_provider(
        self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str]
    ) -> None:
        """Replace the whole configuration of a provider; `headers` may hold secrets."""

    @abstractmethod
    async def disable_provider(self, provider_id: str) -> None:
        """Disable a provider."""


async def set_validated_provider(
    agent: ProvidersMixin,
    provider_id: str,
    api_type: str,
    base_url: str,
    headers: Mapping[str, str],
) -> None:
    """Set a provider; raise `InvalidParams` for an unknown provider or API (R-PROV-07)."""
    for provider in await agent.list_providers():
        if provider.id == provider_id:
            if api_type not in provider.supported:
                raise InvalidParams("Unsupported protocol", data={"apiType": api_type})
            await agent.set_provider(provider_id, api_type, base_url, headers)
            return
    raise InvalidParams("Unknown provider", data={"providerId": provider_id})


async def disable_known_provider(agent: ProvidersMixin, provider_id: str) -> None:
    """Disable a provider; an unknown one is not an error (R-PROV-08, R-PROV-09)."""
    for provider in await agent.list_providers():
        if provider.id == provider_id:
            if provider.required:
                raise InvalidParams("The provider is required")
            await agent.disable_provider(provider_id)
