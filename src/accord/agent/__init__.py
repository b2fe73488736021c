"""Agents that are written once and speak both versions: what else they are made of.

`accord.Agent` and `accord.Turn` are the beginning. Here are the mix-ins of agents that log users
in, let them configure providers or suggest edits, and the types of what turns give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accord.agent.background import WorkCancelled
    from accord.agent.compaction import Compaction
    from accord.agent.elicit import Elicitation
    from accord.agent.files import Files
    from accord.agent.mixins import Authentication, Login, Providers, TerminalLogin
    from accord.agent.nes import NextEdits
    from accord.agent.peer import ConnectedClient
    from accord.agent.plan import Plan
    from accord.agent.store_fallback import FallbackStore
    from accord.agent.subagent import Subagent
    from accord.agent.terminals import Ran, Terminals
    from accord.agent.tool import ToolCall
    from accord.model.login import Account, LoginState, Provider
    from accord.model.session import SystemPrompt

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
    "Account": "accord.model.login",
    "Authentication": "accord.agent.mixins",
    "Compaction": "accord.agent.compaction",
    "ConnectedClient": "accord.agent.peer",
    "Elicitation": "accord.agent.elicit",
    "FallbackStore": "accord.agent.store_fallback",
    "Files": "accord.agent.files",
    "Login": "accord.agent.mixins",
    "LoginState": "accord.model.login",
    "NextEdits": "accord.agent.nes",
    "Plan": "accord.agent.plan",
    "Provider": "accord.model.login",
    "Providers": "accord.agent.mixins",
    "Ran": "accord.agent.terminals",
    "Subagent": "accord.agent.subagent",
    "SystemPrompt": "accord.model.session",
    "TerminalLogin": "accord.agent.mixins",
    "Terminals": "accord.agent.terminals",
    "ToolCall": "accord.agent.tool",
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
