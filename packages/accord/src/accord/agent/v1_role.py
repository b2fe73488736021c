"""Serves agents in version 1: answers `initialize`, and hands all else to the handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from accord import v1
from accord.agent.hooks import (
    MCP_CALLS,
    STORE_CALLS,
    AgentAuthMethod,
    AuthenticationMixin,
    auth_methods_for,
    overrides_auth_status,
    served_calls,
)
from accord.agent.role import (
    RoleConnection,
    SharedRole,
    implementation_to_wire,
    initialize_meta,
    system_prompt_to_wire,
)
from accord.wire.base import replace
from accord.wire.protocol import ProtocolSpec

if TYPE_CHECKING:
    from accord.agent.hooks import TerminalAuthMethod
    from accord.version import ProtocolVersion

_ALWAYS = frozenset(
    {
        "new_session",
        "close_session",
        "prompt",
        "cancel",
        "set_session_mode",
        "set_session_config_option",
    }
)
_STORE = STORE_CALLS | {"load_session", "resume_session"}
_AUTH = frozenset({"authenticate", "logout", "auth_status"})


class AgentRoleV1(SharedRole, v1.AgentRole):
    """Serves version 1 on a connection of an agent."""

    version: ClassVar[ProtocolVersion] = 1

    def __init__(self, connection: RoleConnection) -> None:
        super().__init__(connection)
        self._more = self._agent.handlers_v1()
        if self._agent.spec_v1 is not None:
            self.spec: ProtocolSpec = self._agent.spec_v1
        served = served_calls(self._agent, _ALWAYS, _STORE, _AUTH)
        self.served: frozenset[str] | None = served.union(self._more)

    def initialize(
        self, params: v1.InitializeRequest, context: v1.AgentContext
    ) -> v1.InitializeResponse:
        self._connection.set_client(1, params, context)
        terminals = params.client_capabilities.auth.terminal
        return v1.InitializeResponse(
            protocol_version=1,
            agent_info=implementation_to_wire(v1, self._agent),
            agent_capabilities=self.capabilities(),
            auth_methods=[
                _auth_method(m) for m in auth_methods_for(self._agent, terminals=terminals)
            ],
            meta=initialize_meta(self._agent),
        )

    def capabilities(self) -> v1.AgentCapabilities:
        agent = self._agent
        derived = self._derived_capabilities()
        derived = replace(
            derived,
            prompt_capabilities=v1.PromptCapabilities(
                image="image" in agent.prompt_capabilities,
                audio="audio" in agent.prompt_capabilities,
                embedded_context="resource" in agent.prompt_capabilities,
            ),
            mcp_capabilities=v1.McpCapabilities(
                http="http" in agent.mcp_transports,
                sse="sse" in agent.mcp_transports,
                acp="acp" in agent.mcp_transports,
            ),
            session_capabilities=replace(
                derived.session_capabilities,
                system_prompt=system_prompt_to_wire(v1, agent),
                additional_directories=v1.SessionAdditionalDirectoriesCapabilities(),
            ),
        )
        return agent.capabilities_v1(derived)

    def _derived_capabilities(self) -> v1.AgentCapabilities:
        if self.served is not None and self.served - MCP_CALLS == _ALWAYS:
            # The result of `super().capabilities()`, which takes milliseconds.
            return v1.AgentCapabilities(
                session_capabilities=v1.SessionCapabilities(close=v1.SessionCloseCapabilities())
            )
        derived = super().capabilities()
        agent = self._agent
        if agent.unstable:
            return derived
        if isinstance(agent, AuthenticationMixin) and not overrides_auth_status(agent):
            derived = replace(derived, auth=replace(derived.auth, status=None))
        stable = replace(
            derived.session_capabilities, fork=None, archive=None, status=None, title=None
        )
        return replace(derived, session_capabilities=stable)


def _auth_method(method: AgentAuthMethod | TerminalAuthMethod) -> v1.AuthMethod:
    if isinstance(method, AgentAuthMethod):
        return v1.AuthMethodAgent(id=method.id, name=method.name, description=method.description)
    return v1.AuthMethodTerminal(
        id=method.id,
        name=method.name,
        description=method.description,
        args=list(method.args),
        env=dict(method.env),
    )
