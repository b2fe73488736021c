"""What the methods of an agent receive, use and inherit, in addition to `accord.Agent`.

To read the package: `agent` has the base class and its connections, `hooks` what these know of it.
`session` is what an agent receives; `session_core`, `tool_call` and `toolbox` do its work, and
`session_manager` opens sessions and runs turns. `role` and `handlers` serve the client's requests,
`client_adapter` calls the client, each with a module for each version. `store` keeps sessions.
Up to the response of `initialize`, only `agent`, `hooks`, `session` and `role` and what these need
are imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any


# Type checkers read these imports, Python the table below; a test keeps them equal.
if TYPE_CHECKING:
    from accord.agent.files_and_terminals import (
        CommandResult as CommandResult,
        SessionFiles as SessionFiles,
        SessionTerminals as SessionTerminals,
    )
    from accord.agent.hooks import (
        AgentAuthMethod as AgentAuthMethod,
        AuthenticationMixin as AuthenticationMixin,
        ProvidersMixin as ProvidersMixin,
        TerminalAuthMethod as TerminalAuthMethod,
    )
    from accord.agent.session import (
        ConnectedClient as ConnectedClient,
        SubagentHandle as SubagentHandle,
        ToolCallHandle as ToolCallHandle,
    )
    from accord.agent.store import (
        Archived as Archived,
        OwnedSession as OwnedSession,
        SessionPage as SessionPage,
        StoredSession as StoredSession,
    )
    from accord.agent.store.fallback import FallbackStore as FallbackStore
    from accord.agent.toolbox import (
        CompactionHandle as CompactionHandle,
        PlanHandle as PlanHandle,
        UrlElicitation as UrlElicitation,
    )
    from accord.agent.updates import (
        CompactionUpdate as CompactionUpdate,
        ContextUsageUpdate as ContextUsageUpdate,
        MessageUpdate as MessageUpdate,
        PlanUpdate as PlanUpdate,
        ToolCallUpdate as ToolCallUpdate,
        Update as Update,
    )
    from accord.agent.work import WorkCancelled as WorkCancelled
    from accord.types.session import AuthState as AuthState
else:
    # Imported when first used, to keep start-up fast.
    _LAZY = {
        name: module
        for module, names in {
            "accord.agent.files_and_terminals": "CommandResult SessionFiles SessionTerminals",
            "accord.agent.hooks": (
                "AgentAuthMethod AuthenticationMixin ProvidersMixin TerminalAuthMethod"
            ),
            "accord.agent.session": "ConnectedClient SubagentHandle ToolCallHandle",
            "accord.agent.store": "Archived OwnedSession SessionPage StoredSession",
            "accord.agent.store.fallback": "FallbackStore",
            "accord.agent.toolbox": "CompactionHandle PlanHandle UrlElicitation",
            "accord.agent.updates": (
                "CompactionUpdate ContextUsageUpdate MessageUpdate PlanUpdate ToolCallUpdate Update"
            ),
            "accord.agent.work": "WorkCancelled",
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
