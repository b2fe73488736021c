"""Agents that are written once and speak both versions: what else they are made of.

`accord.Agent` and `accord.Turn` are the beginning. Here are the mix-ins of agents that log users
in, let them configure providers or suggest edits, and the types of what turns give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accord.agent.background import WorkCancelled
    from accord.agent.compaction import Compaction
    from accord.agent.connected_client import ConnectedClient
    from accord.agent.elicitation import Elicitation
    from accord.agent.files import Files
    from accord.agent.mixins import Authentication, Login, Providers, TerminalLogin
    from accord.agent.nes import NextEdits
    from accord.agent.plan import Plan
    from accord.agent.store.fallback import FallbackStore
    from accord.agent.subagent import Subagent
    from accord.agent.terminals import Ran, Terminals
    from accord.agent.tool_call import ToolCall
    from accord.types.auth import Account, LoginState, Provider
    from accord.types.session import SystemPrompt

__all__ = (
    "Account",
    "Authentication",
    "Compaction",
    "ConnectedClient",
    "Elicitation",
    "FallbackStore",
    "Files",
    "Login",
    "LoginState",
    "NextEdits",
    "Plan",
    "Provider",
    "Providers",
    "Ran",
    "Subagent",
    "SystemPrompt",
    "TerminalLogin",
    "Terminals",
    "ToolCall",
    "WorkCancelled",
)

# Editors start agents all the time: each is imported when it is first named.
_LAZY = {
    "Account": "accord.types.auth",
    "Authentication": "accord.agent.mixins",
    "Compaction": "accord.agent.compaction",
    "ConnectedClient": "accord.agent.connected_client",
    "Elicitation": "accord.agent.elicitation",
    "FallbackStore": "accord.agent.store.fallback",
    "Files": "accord.agent.files",
    "Login": "accord.agent.mixins",
    "LoginState": "accord.types.auth",
    "NextEdits": "accord.agent.nes",
    "Plan": "accord.agent.plan",
    "Provider": "accord.types.auth",
    "Providers": "accord.agent.mixins",
    "Ran": "accord.agent.terminals",
    "Subagent": "accord.agent.subagent",
    "SystemPrompt": "accord.types.session",
    "TerminalLogin": "accord.agent.mixins",
    "Terminals": "accord.agent.terminals",
    "ToolCall": "accord.agent.tool_call",
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
