"""Serves logins and providers in version 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accord import v2
from accord.agent.mixins import (
    AgentAuthMethod,
    AuthenticationMixin,
    ProvidersMixin,
    TerminalAuthMethod,
    overrides_auth_status,
)
from accord.agent.shared_updates import accounts_to_wire
from accord.agent.v2.role import AgentRoleV2
from accord.wire.base import replace

if TYPE_CHECKING:
    from accord.agent.agent import Agent

__all__ = ("AuthRoleV2", "ProvidersRoleV2", "mixin_roles")


class AuthRoleV2(AgentRoleV2):
    """Serves logins."""

    def initialize(
        self, params: v2.InitializeRequest, context: v2.AgentContext
    ) -> v2.InitializeResponse:
        takes_terminals = (
            auth := params.capabilities.auth
        ) is not None and auth.terminal is not None
        self.auth_methods = [
            _auth_method(login)
            for login in self._agent.auth_methods
            if takes_terminals or isinstance(login, AgentAuthMethod)  # R-AUTH-13
        ]
        return super().initialize(params, context)

    @property
    def _agent(self) -> AuthenticationMixin:
        agent = self.manager.agent
        assert isinstance(agent, AuthenticationMixin), "chosen by `role_for`"
        return agent

    async def login(
        self, params: v2.LoginAuthRequest, context: v2.AgentContext
    ) -> v2.LoginAuthResponse:
        await self._agent.validate_and_login(params.method_id)
        context.start(self._agent.notify_auth_status())
        return v2.LoginAuthResponse()

    async def logout(
        self, params: v2.LogoutAuthRequest, context: v2.AgentContext
    ) -> v2.LogoutAuthResponse:
        await self._agent.logout()
        context.start(self._agent.notify_auth_status())
        return v2.LogoutAuthResponse()

    async def auth_status(
        self, params: v2.AuthStatusRequest, context: v2.AgentContext
    ) -> v2.AuthStatusResponse:
        state, accounts = await self._agent.auth_status()
        self.manager.last_auth_status = state, tuple(accounts)
        return v2.AuthStatusResponse(state=state, accounts=accounts_to_wire(v2, accounts))

    def _derived_capabilities(self) -> v2.AgentCapabilities:
        offered = super()._derived_capabilities()
        if self.manager.agent.unstable or overrides_auth_status(self._agent):
            return offered
        return replace(offered, auth=replace(offered.auth, status=None))


def _auth_method(login: AgentAuthMethod | TerminalAuthMethod) -> v2.AuthMethod:
    if isinstance(login, AgentAuthMethod):
        return v2.AuthMethodAgent(
            method_id=login.id, name=login.name, description=login.description
        )
    return v2.AuthMethodTerminal(
        method_id=login.id,
        name=login.name,
        description=login.description,
        args=list(login.args),
        env=[v2.EnvVariable(name=name, value=value) for name, value in login.env.items()],
    )


class ProvidersRoleV2(AgentRoleV2):
    """Serves the configuration of providers."""

    @property
    def _agent(self) -> ProvidersMixin:
        agent = self.manager.agent
        assert isinstance(agent, ProvidersMixin), "chosen by `role_for`"
        return agent

    async def list_providers(
        self, params: v2.ListProvidersRequest, context: v2.AgentContext
    ) -> v2.ListProvidersResponse:
        found = [
            v2.ProviderInfo(
                provider_id=provider.id,
                supported=list(provider.supported),
                required=provider.required,
                current=None
                if provider.base_url is None or provider.api_type is None
                else v2.ProviderCurrentConfig(
                    api_type=provider.api_type, base_url=provider.base_url
                ),
            )
            for provider in await self._agent.list_providers()
        ]
        return v2.ListProvidersResponse(providers=found)

    async def set_provider(
        self, params: v2.SetProviderRequest, context: v2.AgentContext
    ) -> v2.SetProviderResponse:
        await self._agent.validate_and_set_provider(
            params.provider_id, params.api_type, params.base_url, params.headers
        )
        return v2.SetProviderResponse()

    async def disable_provider(
        self, params: v2.DisableProviderRequest, context: v2.AgentContext
    ) -> v2.DisableProviderResponse:
        await self._agent.validate_and_disable_provider(params.provider_id)
        return v2.DisableProviderResponse()


def mixin_roles(agent: Agent) -> list[type[AgentRoleV2]]:
    """Return what serves the mix-ins of an agent."""
    found: list[type[AgentRoleV2]] = []
    if isinstance(agent, AuthenticationMixin):
        found.append(AuthRoleV2)
    if isinstance(agent, ProvidersMixin):
        found.append(ProvidersRoleV2)
    return found
