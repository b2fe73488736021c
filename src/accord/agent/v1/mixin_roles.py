"""Serves logins, providers and next edit suggestions in version 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from accord import v1
from accord.agent.mixins import (
    AgentAuthMethod,
    AuthenticationMixin,
    ProvidersMixin,
    TerminalAuthMethod,
    overrides_auth_status,
)
from accord.agent.nes import NextEdits
from accord.agent.shared_updates import accounts_to_wire
from accord.agent.v1.role import AgentRoleV1
from accord.wire.base import replace

if TYPE_CHECKING:
    from accord.agent.agent import Agent

__all__ = ("AuthRoleV1", "ProvidersRoleV1", "mixin_roles")


class AuthRoleV1(AgentRoleV1):
    """Serves logins."""

    def initialize(
        self, params: v1.InitializeRequest, context: v1.AgentContext
    ) -> v1.InitializeResponse:
        takes_terminals = params.client_capabilities.auth.terminal
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

    async def authenticate(
        self, params: v1.AuthenticateRequest, context: v1.AgentContext
    ) -> v1.AuthenticateResponse:
        await self._agent.validate_and_login(params.method_id)
        context.start(self._agent.notify_auth_status())
        return v1.AuthenticateResponse()

    async def logout(self, params: v1.LogoutRequest, context: v1.AgentContext) -> v1.LogoutResponse:
        await self._agent.logout()
        context.start(self._agent.notify_auth_status())
        return v1.LogoutResponse()

    async def auth_status(
        self, params: v1.AuthStatusRequest, context: v1.AgentContext
    ) -> v1.AuthStatusResponse:
        state, accounts = await self._agent.auth_status()
        self.manager.last_auth_status = state, tuple(accounts)
        return v1.AuthStatusResponse(state=state, accounts=accounts_to_wire(v1, accounts))

    def _derived_capabilities(self) -> v1.AgentCapabilities:
        offered = super()._derived_capabilities()
        if self.manager.agent.unstable or overrides_auth_status(self._agent):
            return offered
        return replace(offered, auth=replace(offered.auth, status=None))


def _auth_method(login: AgentAuthMethod | TerminalAuthMethod) -> v1.AuthMethod:
    if isinstance(login, AgentAuthMethod):
        return v1.AuthMethodAgent(id=login.id, name=login.name, description=login.description)
    return v1.AuthMethodTerminal(
        id=login.id,
        name=login.name,
        description=login.description,
        args=list(login.args),
        env=dict(login.env),
    )


class ProvidersRoleV1(AgentRoleV1):
    """Serves the configuration of providers."""

    @property
    def _agent(self) -> ProvidersMixin:
        agent = self.manager.agent
        assert isinstance(agent, ProvidersMixin), "chosen by `role_for`"
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
        await self._agent.validate_and_set_provider(
            params.provider_id, params.api_type, params.base_url, params.headers
        )
        return v1.SetProviderResponse()

    async def disable_provider(
        self, params: v1.DisableProviderRequest, context: v1.AgentContext
    ) -> v1.DisableProviderResponse:
        await self._agent.validate_and_disable_provider(params.provider_id)
        return v1.DisableProviderResponse()


def _nes_role(agent: type[Agent]) -> type[AgentRoleV1]:
    """Return a role with the methods of suggestions that an agent overrides."""

    def forward(call: str) -> Callable[..., Any]:
        def handle(self: AgentRoleV1, params: Any, _context: v1.AgentContext) -> Any:
            return getattr(self.manager.agent, call)(params)

        return handle

    always = {"accept_nes", "reject_nes"}
    calls = [call for call in vars(NextEdits) if not call.startswith("_")]
    namespace = {
        call: forward(call)
        for call in calls
        if call in always or getattr(agent, call, None) is not getattr(NextEdits, call)
    }
    return type("_NesRole", (AgentRoleV1,), namespace)


def mixin_roles(agent: Agent) -> list[type[AgentRoleV1]]:
    """Return what serves the mix-ins of an agent."""
    found: list[type[AgentRoleV1]] = []
    if isinstance(agent, AuthenticationMixin):
        found.append(AuthRoleV1)
    if isinstance(agent, ProvidersMixin):
        found.append(ProvidersRoleV1)
    if isinstance(agent, NextEdits):
        found.append(_nes_role(type(agent)))
    return found
