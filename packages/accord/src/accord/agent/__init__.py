"""What the methods of an agent receive, use and inherit, in addition to `accord.Agent`.

The handles of what a turn shows, the mix-ins for auth methods and providers, and their types.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any


# Type checkers read these imports, Python the table below; a test keeps them equal.
if TYPE_CHECKING:
    from accord.agent.cancel_scope import WorkCancelled as WorkCancelled
    from accord.agent.compaction import CompactionHandle as CompactionHandle
    from accord.agent.elicitation import UrlElicitation as UrlElicitation
    from accord.agent.files import SessionFiles as SessionFiles
    from accord.agent.mixins import (
        AgentAuthMethod as AgentAuthMethod,
        AuthenticationMixin as AuthenticationMixin,
        ProvidersMixin as ProvidersMixin,
        TerminalAuthMethod as TerminalAuthMethod,
    )
    from accord.agent.plan import PlanHandle as PlanHandle
    from accord.agent.session import (
        ConnectedClient as ConnectedClient,
        SubagentHandle as SubagentHandle,
        ToolCallHandle as ToolCallHandle,
    )
    from accord.agent.store.base import (
        Archived as Archived,
        OwnedSession as OwnedSession,
        SessionPage as SessionPage,
        StoredSession as StoredSession,
    )
    from accord.agent.store.fallback import FallbackStore as FallbackStore
    from accord.agent.terminals import (
        CommandResult as CommandResult,
        SessionTerminals as SessionTerminals,
    )
    from accord.agent.updates import (
        CompactionUpdate as CompactionUpdate,
        ContextUsageUpdate as ContextUsageUpdate,
        MessageUpdate as MessageUpdate,
        PlanUpdate as PlanUpdate,
        ToolCallUpdate as ToolCallUpdate,
        Update as Update,
    )
    from accord.types.session import AuthState as AuthState
else:
    # Imported when first used, to keep start-up fast.
    _LAZY = {
        name: module
        for module, names in {
            "accord.agent.cancel_scope": "WorkCancelled",
            "accord.agent.compaction": "CompactionHandle",
            "accord.agent.elicitation": "UrlElicitation",
            "accord.agent.files": "SessionFiles",
            "accord.agent.mixins": (
                "AgentAuthMethod AuthenticationMixin ProvidersMixin TerminalAuthMethod"
            ),
            "accord.agent.plan": "PlanHandle",
            "accord.agent.session": "ConnectedClient SubagentHandle ToolCallHandle",
            "accord.agent.store.base": "Archived OwnedSession SessionPage StoredSession",
            "accord.agent.store.fallback": "FallbackStore",
            "accord.agent.terminals": "CommandResult SessionTerminals",
            "accord.agent.updates": (
                "CompactionUpdate ContextUsageUpdate MessageUpdate PlanUpdate ToolCallUpdate Update"
            ),
            "accord.types.session": "AuthState",
        }.items()
        for name in names.split()
    }
    __all__ = tuple(_LAZY)

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
