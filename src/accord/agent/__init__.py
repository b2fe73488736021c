"""Agents that are written once and speak both versions: what else they are made of.

`accord.Agent` and `accord.Turn` are the beginning. Here are the mix-ins of agents that log users
in, let them configure providers or suggest edits, and the types of what turns give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accord.agent.background import WorkCancelled
    from accord.agent.compaction import CompactionHandle
    from accord.agent.connected_client import ConnectedClient
    from accord.agent.elicitation import UrlElicitation
    from accord.agent.files import SessionFiles
    from accord.agent.mixins import (
        AgentAuthMethod,
        AuthenticationMixin,
        ProvidersMixin,
        TerminalAuthMethod,
    )
    from accord.agent.nes import NextEdits
    from accord.agent.plan import PlanHandle
    from accord.agent.store.fallback import FallbackStore
    from accord.agent.subagent import SubagentHandle
    from accord.agent.terminals import CommandResult, SessionTerminals
    from accord.agent.tool_call import ToolCallHandle
    from accord.types.auth import AuthAccount, AuthState, ProviderInfo
    from accord.types.session import SystemPrompt

__all__ = (
    "AgentAuthMethod",
    "AuthAccount",
    "AuthState",
    "AuthenticationMixin",
    "CommandResult",
    "CompactionHandle",
    "ConnectedClient",
    "FallbackStore",
    "NextEdits",
    "PlanHandle",
    "ProviderInfo",
    "ProvidersMixin",
    "SessionFiles",
    "SessionTerminals",
    "SubagentHandle",
    "SystemPrompt",
    "TerminalAuthMethod",
    "ToolCallHandle",
    "UrlElicitation",
    "WorkCancelled",
)

# Editors start agents all the time: each is imported when it is first named.
_LAZY = {
    "AuthAccount": "accord.types.auth",
    "AuthenticationMixin": "accord.agent.mixins",
    "CompactionHandle": "accord.agent.compaction",
    "ConnectedClient": "accord.agent.connected_client",
    "UrlElicitation": "accord.agent.elicitation",
    "FallbackStore": "accord.agent.store.fallback",
    "SessionFiles": "accord.agent.files",
    "AgentAuthMethod": "accord.agent.mixins",
    "AuthState": "accord.types.auth",
    "NextEdits": "accord.agent.nes",
    "PlanHandle": "accord.agent.plan",
    "ProviderInfo": "accord.types.auth",
    "ProvidersMixin": "accord.agent.mixins",
    "CommandResult": "accord.agent.terminals",
    "SubagentHandle": "accord.agent.subagent",
    "SystemPrompt": "accord.types.session",
    "TerminalAuthMethod": "accord.agent.mixins",
    "SessionTerminals": "accord.agent.terminals",
    "ToolCallHandle": "accord.agent.tool_call",
    "WorkCancelled": "accord.agent.background",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
