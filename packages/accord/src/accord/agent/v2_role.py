"""Serves agents in version 2: answers `initialize`, and hands all else to the handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from accord import v2
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

if TYPE_CHECKING:
    from accord.agent.hooks import TerminalAuthMethod
    from accord.version import ProtocolVersion

_ALWAYS = frozenset(
    {
        "new_session",
        "resume_session",
        "list_sessions",
        "close_session",
        "prompt",
        "cancel",
        "cancel_tool_call",
        "cancel_terminal",
        "set_session_config_option",
    }
)
_AUTH = frozenset({"login", "logout", "auth_status"})


class AgentRoleV2(SharedRole, v2.AgentRole):
    """Serves version 2 on a connection of an agent."""

    version: ClassVar[ProtocolVersion] = 2

    def __init__(self, connection: RoleConnection) -> None:
        super().__init__(connection)
        self.served: frozenset[str] | None = served_calls(self._agent, _ALWAYS, STORE_CALLS, _AUTH)

    def initialize(
        self, params: v2.InitializeRequest, context: v2.AgentContext
    ) -> v2.InitializeResponse:
        self._connection.set_client(2, params, context)
        auth = params.capabilities.auth
        terminals = auth is not None and auth.terminal is not None
        return v2.InitializeResponse(
            protocol_version=2,
            info=implementation_to_wire(v2, self._agent),
            capabilities=self.capabilities(),
            auth_methods=[
                _auth_method(m) for m in auth_methods_for(self._agent, terminals=terminals)
            ],
            meta=initialize_meta(self._agent),
        )

    def capabilities(self) -> v2.AgentCapabilities:
        agent = self._agent
        derived = self._derived_capabilities()
        kinds, transports = agent.prompt_capabilities, agent.mcp_transports
        session = replace(
            derived.session or v2.SessionCapabilities(),
            system_prompt=system_prompt_to_wire(v2, agent),
            prompt=v2.PromptCapabilities(
                image=v2.PromptImageCapabilities() if "image" in kinds else None,
                audio=v2.PromptAudioCapabilities() if "audio" in kinds else None,
                embedded_context=v2.PromptEmbeddedContextCapabilities()
                if "resource" in kinds
                else None,
            ),
            mcp=v2.McpCapabilities(
                stdio=v2.McpStdioCapabilities() if "stdio" in transports else None,
                http=v2.McpHttpCapabilities() if "http" in transports else None,
                acp=v2.McpAcpCapabilities() if "acp" in transports else None,
            ),
            additional_directories=v2.SessionAdditionalDirectoriesCapabilities(),
        )
        return agent.capabilities_v2(replace(derived, session=session))

    def _derived_capabilities(self) -> v2.AgentCapabilities:
        if self.served is not None and self.served - MCP_CALLS == _ALWAYS:
            # The result of `super().capabilities()`, which takes milliseconds.
            return v2.AgentCapabilities(session=v2.SessionCapabilities())
        derived = super().capabilities()
        agent = self._agent
        if agent.unstable:
            return derived
        if isinstance(agent, AuthenticationMixin) and not overrides_auth_status(agent):
            derived = replace(derived, auth=replace(derived.auth, status=None))
        if derived.session is None:
            return derived
        stable = replace(derived.session, fork=None, archive=None, status=None, title=None)
        return replace(derived, session=stable)


def _auth_method(method: AgentAuthMethod | TerminalAuthMethod) -> v2.AuthMethod:
    if isinstance(method, AgentAuthMethod):
        return v2.AuthMethodAgent(
            method_id=method.id, name=method.name, description=method.description
        )
    return v2.AuthMethodTerminal(
        method_id=method.id,
        name=method.name,
        description=method.description,
        args=list(method.args),
        env=[v2.EnvVariable(name=name, value=value) for name, value in method.env.items()],
    )
