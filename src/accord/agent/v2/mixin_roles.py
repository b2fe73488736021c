"""Serves logins and providers in version 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accord import v2
from accord.agent.mixins import (
    Authentication,
    Login,
    Providers,
    TerminalLogin,
    tells_accounts,
)
from accord.agent.shared_updates import accounts_to_wire
from accord.agent.v2.role import AgentRole
from accord.wire.base import replace

if TYPE_CHECKING:
    from accord.agent.agent import Agent

__all__ = ("extra_roles",)


class _LoginRole(AgentRole):
    """Serves logins."""

    def initialize(
        self, params: v2.InitializeRequest, context: v2.AgentContext
    ) -> v2.InitializeResponse:
        takes_terminals = (
            auth := params.capabilities.auth
        ) is not None and auth.terminal is not None
        self.auth_methods = [
            _auth_method(login)
            for login in self._agent.logins
            if takes_terminals or isinstance(login, Login)  # R-AUTH-13
        ]
        return super().initialize(params, context)

    @property
    def _agent(self) -> Authentication:
        agent = self.host.agent
        assert isinstance(agent, Authentication), "chosen by `role_for`"
        return agent

    async def login(
        self, params: v2.LoginAuthRequest, context: v2.AgentContext
    ) -> v2.LoginAuthResponse:
        await self._agent.login_checked(params.method_id)
        context.start(self._agent.login_changed())
        return v2.LoginAuthResponse()

    async def logout(
        self, params: v2.LogoutAuthRequest, context: v2.AgentContext
    ) -> v2.LogoutAuthResponse:
        await self._agent.logout()
        context.start(self._agent.login_changed())
        return v2.LogoutAuthResponse()

    async def auth_status(
        self, params: v2.AuthStatusRequest, context: v2.AgentContext
    ) -> v2.AuthStatusResponse:
        state, accounts = await self._agent.accounts()
        self.host.told_login = state, tuple(accounts)
        return v2.AuthStatusResponse(state=state, accounts=accounts_to_wire(v2, accounts))

    def _derived(self) -> v2.AgentCapabilities:
        offered = super()._derived()
        if self.host.agent.unstable or tells_accounts(self._agent):
            return offered
        return replace(offered, auth=replace(offered.auth, status=None))


def _auth_method(login: Login | TerminalLogin) -> v2.AuthMethod:
    if isinstance(login, Login):
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


class _ProvidersRole(AgentRole):
    """Serves the configuration of providers."""

    @property
    def _agent(self) -> Providers:
        agent = self.host.agent
        assert isinstance(agent, Providers), "chosen by `role_for`"
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
        await self._agent.set_checked(
            params.provider_id, params.api_type, params.base_url, params.headers
        )
        return v2.SetProviderResponse()

    async def disable_provider(
        self, params: v2.DisableProviderRequest, context: v2.AgentContext
    ) -> v2.DisableProviderResponse:
        await self._agent.disable_checked(params.provider_id)
        return v2.DisableProviderResponse()


def extra_roles(agent: Agent) -> list[type[AgentRole]]:
    """Return what serves the mix-ins of an agent."""
    found: list[type[AgentRole]] = []
    if isinstance(agent, Authentication):
        found.append(_LoginRole)
    if isinstance(agent, Providers):
        found.append(_ProvidersRole)
    return found
