"""What an agent advertises, as both versions derive it from its class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accord.agent.mixins import (
    AgentAuthMethod,
    AuthenticationMixin,
    ProvidersMixin,
    TerminalAuthMethod,
)

if TYPE_CHECKING:
    from accord.agent.hooks import AgentHooks
    from accord.agent.version_types import VersionTypes

__all__ = (
    "PROVIDER_CALLS",
    "STORE_CALLS",
    "auth_methods_for",
    "implementation_to_wire",
    "served_calls",
    "system_prompt_to_wire",
)

# Served by agents with a store, in both versions.
STORE_CALLS = frozenset(
    {
        "fork_session",
        "list_sessions",
        "session_status",
        "set_session_title",
        "archive_session",
        "unarchive_session",
        "delete_session",
    }
)
PROVIDER_CALLS = frozenset({"list_providers", "set_provider", "disable_provider"})


def served_calls(
    agent: AgentHooks, always: frozenset[str], store: frozenset[str], auth: frozenset[str]
) -> frozenset[str]:
    """Return the calls that an agent serves; the sets are those of the version."""
    served = always
    if agent.store is not None:
        served |= store
    if isinstance(agent, AuthenticationMixin):
        served |= auth
    if isinstance(agent, ProvidersMixin):
        served |= PROVIDER_CALLS
    return served


def auth_methods_for(
    agent: AgentHooks, *, terminals: bool
) -> list[AgentAuthMethod | TerminalAuthMethod]:
    """Return the auth methods that the client can use; `terminals` if it runs some (R-AUTH-13)."""
    if not isinstance(agent, AuthenticationMixin):
        return []
    return [m for m in agent.auth_methods if terminals or isinstance(m, AgentAuthMethod)]


def implementation_to_wire(types: VersionTypes, agent: AgentHooks) -> Any:
    """Return the name and version of an agent; by default its class is the name."""
    info = agent.info
    if info is None:
        return types.Implementation(name=type(agent).__name__, version="0")
    return types.Implementation(name=info.name, version=info.version, title=info.title)


def system_prompt_to_wire(types: VersionTypes, agent: AgentHooks) -> Any:
    """Return the capability for the modes of system prompts that an agent supports."""
    if not agent.unstable or not agent.system_prompt:
        return None
    if "override" not in agent.system_prompt:
        return types.SessionSystemPromptCapabilities()
    override = types.SessionSystemPromptOverrideCapabilities()
    return types.SessionSystemPromptCapabilities(
        mode=types.SessionSystemPromptModeCapabilities(override=override)
    )
