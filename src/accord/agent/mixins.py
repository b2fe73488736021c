"""What some agents do besides sessions: logins, and model providers that the user configures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from accord.agent.agent_connection import connections_of
from accord.errors import AuthRequired, InvalidParams, TransportError
from accord.types.auth import AuthAccount, AuthState, ProviderInfo

__all__ = (
    "AgentAuthMethod",
    "AuthAccount",
    "AuthState",
    "AuthenticationMixin",
    "ProviderInfo",
    "ProvidersMixin",
    "TerminalAuthMethod",
    "overrides_auth_status",
)


class AgentAuthMethod(Struct, frozen=True):
    """A way to log in that the agent takes by itself."""

    id: str
    name: str
    description: str | None = None


class TerminalAuthMethod(Struct, frozen=True):
    """A login in a terminal: the agent's own command with these arguments and variables added.

    It is offered to clients that can do that; it has to exit when done.
    """

    id: str
    name: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    description: str | None = None


class AuthenticationMixin(ABC):
    """Mix-in: `class MyAgent(Authentication, Agent)`, whose users log in first."""

    auth_methods: Sequence[AgentAuthMethod | TerminalAuthMethod] = ()

    @abstractmethod
    def is_logged_in(self) -> bool:
        """Tell whether sessions may be opened and prompted; quick, it is asked each time."""

    @abstractmethod
    async def login(self, login_id: str) -> None:
        """Log in by one of the logins, never a terminal one; raise if that fails."""

    @abstractmethod
    async def logout(self) -> None:
        """Log out."""

    async def auth_status(self) -> tuple[AuthState, Sequence[AuthAccount]]:
        """Return whether somebody is logged in, and as whom."""
        return ("authenticated" if self.is_logged_in() else "unauthenticated"), ()

    async def notify_auth_status(self) -> None:
        """Tell the clients who is logged in now, those that do not know it yet (unstable).

        A login and a logout by a client do so by themselves; call this when it changes in
        another way. Nothing is told unless the agent is `unstable` or overrides `auth_status`, and
        only to clients that have asked who is logged in: others may not know of it.
        """
        state, accounts = await self.auth_status()
        for connection in tuple(connections_of(self)):
            if connection.has_manager:
                with suppress(TransportError):  # the client has just disconnected
                    await connection.manager.send_auth_status(state, tuple(accounts))

    def check_auth(self) -> None:
        """Raise `AuthRequired` unless somebody is logged in."""
        if not self.is_logged_in():
            raise AuthRequired

    async def validate_and_login(self, login_id: str) -> None:
        """For the roles: log in; raise `InvalidParams` for what was not offered (R-AUTH-09)."""
        if not any(
            isinstance(login, AgentAuthMethod) and login.id == login_id
            for login in self.auth_methods
        ):
            raise InvalidParams("Unknown login", data={"methodId": login_id})
        await self.login(login_id)


def overrides_auth_status(agent: AuthenticationMixin) -> bool:
    """Tell whether an agent has its own word on who is logged in."""
    return type(agent).auth_status is not AuthenticationMixin.auth_status


class ProvidersMixin(ABC):
    """Mix-in: the client may configure where models come from, for sessions opened afterwards."""

    @abstractmethod
    async def list_providers(self) -> Sequence[ProviderInfo]:
        """Return all that there are."""

    @abstractmethod
    async def set_provider(
        self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str]
    ) -> None:
        """Replace the whole configuration of a provider; `headers` may hold secrets."""

    @abstractmethod
    async def disable_provider(self, provider_id: str) -> None:
        """Use a provider no more."""

    async def validate_and_set_provider(
        self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str]
    ) -> None:
        """For the roles: set; raise `InvalidParams` for what there is not (R-PROV-07)."""
        for provider in await self.list_providers():
            if provider.id == provider_id:
                if api_type not in provider.supported:
                    raise InvalidParams("Unsupported protocol", data={"apiType": api_type})
                await self.set_provider(provider_id, api_type, base_url, headers)
                return
        raise InvalidParams("Unknown provider", data={"providerId": provider_id})

    async def validate_and_disable_provider(self, provider_id: str) -> None:
        """For the roles: disable; an unknown one is no error (R-PROV-08, R-PROV-09)."""
        for provider in await self.list_providers():
            if provider.id == provider_id:
                if provider.required:
                    raise InvalidParams("The provider is required")
                await self.disable_provider(provider_id)
