"""Serves logins, providers and next edit suggestions in version 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from accord import v1
from accord.agent.mixins import (
    Authentication,
    Login,
    Providers,
    TerminalLogin,
    tells_accounts,
)
from accord.agent.nes import NextEdits
from accord.agent.shared_updates import accounts_to_wire
from accord.agent.v1.role import AgentRole
from accord.wire.base import replace

if TYPE_CHECKING:
    from accord.agent.agent import Agent

__all__ = ("extra_roles",)


class _LoginRole(AgentRole):
    """Serves logins."""

    def initialize(
        self, params: v1.InitializeRequest, context: v1.AgentContext
    ) -> v1.InitializeResponse:
        takes_terminals = params.client_capabilities.auth.terminal
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

    async def authenticate(
        self, params: v1.AuthenticateRequest, context: v1.AgentContext
    ) -> v1.AuthenticateResponse:
        await self._agent.login_checked(params.method_id)
        context.start(self._agent.login_changed())
        return v1.AuthenticateResponse()

    async def logout(self, params: v1.LogoutRequest, context: v1.AgentContext) -> v1.LogoutResponse:
        await self._agent.logout()
        context.start(self._agent.login_changed())
        return v1.LogoutResponse()

    async def auth_status(
        self, params: v1.AuthStatusRequest, context: v1.AgentContext
    ) -> v1.AuthStatusResponse:
        state, accounts = await self._agent.accounts()
        self.host.told_login = state, tuple(accounts)
        return v1.AuthStatusResponse(state=state, accounts=accounts_to_wire(v1, accounts))

    def _derived(self) -> v1.AgentCapabilities:
        offered = super()._derived()
        if self.host.agent.unstable or tells_accounts(self._agent):
            return offered
        return replace(offered, auth=replace(offered.auth, status=None))


def _auth_method(login: Login | TerminalLogin) -> v1.AuthMethod:
    if isinstance(login, Login):
        return v1.AuthMethodAgent(id=login.id, name=login.name, description=login.description)
    return v1.AuthMethodTerminal(
        id=login.id,
        name=login.name,
        description=login.description,
        args=list(login.args),
        env=dict(login.env),
    )


class _ProvidersRole(AgentRole):
    """Serves the configuration of providers."""

    @property
    def _agent(self) -> Providers:
        agent = self.host.agent
        assert isinstance(agent, Providers), "chosen by `role_for`"
        return agent

    async def list_providers(
        self, params: v1.ListProvidersRequest, context: v1.AgentContext
    ) -> v1.ListProvidersResponse:
        found = [
            v1.ProviderInfo(
                provider_id=provider.id,
                supported=list(provider.supported),
                required=provider.required,
                current=None
                if provider.base_url is None or provider.api_type is None
                else v1.ProviderCurrentConfig(
                    api_type=provider.api_type, base_url=provider.base_url
                ),
            )
            for provider in await self._agent.list_providers()
        ]
        return v1.ListProvidersResponse(providers=found)

    async def set_provider(
        self, params: v1.SetProviderRequest, context: v1.AgentContext
    ) -> v1.SetProviderResponse:
        await self._agent.set_checked(
            params.provider_id, params.api_type, params.base_url, params.headers
        )
        return v1.SetProviderResponse()

    async def disable_provider(
        self, params: v1.DisableProviderRequest, context: v1.AgentContext
    ) -> v1.DisableProviderResponse:
        await self._agent.disable_checked(params.provider_id)
        return v1.DisableProviderResponse()


def _nes_role(agent: type[Agent]) -> type[AgentRole]:
    """Return a role with the methods of suggestions that an agent overrides."""

    def forward(call: str) -> Callable[..., Any]:
        def handle(self: AgentRole, params: Any, _context: v1.AgentContext) -> Any:
            return getattr(self.host.agent, call)(params)

        return handle

    always = {"accept_nes", "reject_nes"}
    calls = [call for call in vars(NextEdits) if not call.startswith("_")]
    namespace = {
        call: forward(call)
        for call in calls
        if call in always or getattr(agent, call, None) is not getattr(NextEdits, call)
    }
    return type("_NesRole", (AgentRole,), namespace)


def extra_roles(agent: Agent) -> list[type[AgentRole]]:
    """Return what serves the mix-ins of an agent."""
    found: list[type[AgentRole]] = []
    if isinstance(agent, Authentication):
        found.append(_LoginRole)
    if isinstance(agent, Providers):
        found.append(_ProvidersRole)
    if isinstance(agent, NextEdits):
        found.append(_nes_role(type(agent)))
    return found
