"""The Agent Client Protocol for Python.

`Agent` and `serve` are for agents, written once for both versions of the protocol. `accord.v1`
and `accord.v2` are the versions themselves, complete and typed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accord.errors import (
    AccordError,
    AuthRequired,
    BacklogExceeded,
    CancelTimeout,
    ConnectionClosed,
    ConnectionLost,
    DecodeError,
    FrameTooLarge,
    InternalError,
    InvalidParams,
    InvalidRequest,
    LocalProtocolError,
    MethodNotFound,
    NotOffered,
    ParseError,
    ProtocolError,
    RemoteProtocolError,
    RequestCancelled,
    RequestError,
    ResourceNotFound,
    StartError,
    TransportError,
    UnsupportedVersion,
    VersionNotOffered,
)
from accord.version import __version__
from accord.wire.base import UNSET, Unknown

if TYPE_CHECKING:
    from accord.agent.agent import Agent
    from accord.agent.serve import serve
    from accord.agent.session import Session
    from accord.agent.store.base import MemoryStore, SessionStore
    from accord.agent.store.sqlite import SqliteStore
    from accord.agent.turn import Turn
    from accord.client.agent_adapter import SessionInfo, SessionStatus
    from accord.client.ask import AskResult, ask
    from accord.client.connect import ConnectedAgent, connect
    from accord.client.events import (
        AgentTerminal,
        CommandsChanged,
        Compaction,
        ContentChunk,
        MessageReplaced,
        ModeChanged,
        Notice,
        OptionsChanged,
        PermissionDecided,
        PermissionRequest,
        Plan,
        SessionMessage,
        StateChanged,
        Subagent,
        TerminalOutputChunk,
        Text,
        Thought,
        TitleChanged,
        ToolCall,
        UnknownUpdate,
        UpdatedAtChanged,
        UsageChanged,
        UserText,
    )
    from accord.client.message import Message
    from accord.client.session import ClientSession, SubagentSession
    from accord.client.transcript import Transcript
    from accord.client.turn import ClientTurn
    from accord.types.auth import AuthAccount, AuthStatus, ProviderInfo
    from accord.types.content import (
        Annotations,
        AudioContent,
        ContentBlock,
        EmbeddedResource,
        ImageContent,
        ResourceLink,
        TextContent,
    )
    from accord.types.mcp import McpServerHttp, McpServerSse, McpServerStdio
    from accord.types.permission import PermissionOption
    from accord.types.session import (
        AvailableCommand,
        BooleanOption,
        ContextUsage,
        Cost,
        Implementation,
        OptionChoice,
        PlanEntry,
        SelectOption,
        SystemPrompt,
        TokenUsage,
    )
    from accord.types.tool_calls import Diff, ToolCallLocation

__all__ = (
    "UNSET",
    "AccordError",
    "Agent",
    "AgentTerminal",
    "Annotations",
    "AskResult",
    "AudioContent",
    "AuthAccount",
    "AuthRequired",
    "AuthStatus",
    "AvailableCommand",
    "BacklogExceeded",
    "BooleanOption",
    "CancelTimeout",
    "ClientSession",
    "ClientTurn",
    "CommandsChanged",
    "Compaction",
    "ConnectedAgent",
    "ConnectionClosed",
    "ConnectionLost",
    "ContentBlock",
    "ContentChunk",
    "ContextUsage",
    "Cost",
    "DecodeError",
    "Diff",
    "EmbeddedResource",
    "FrameTooLarge",
    "ImageContent",
    "Implementation",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "LocalProtocolError",
    "McpServerHttp",
    "McpServerSse",
    "McpServerStdio",
    "MemoryStore",
    "Message",
    "MessageReplaced",
    "MethodNotFound",
    "ModeChanged",
    "NotOffered",
    "Notice",
    "OptionChoice",
    "OptionsChanged",
    "ParseError",
    "PermissionDecided",
    "PermissionOption",
    "PermissionRequest",
    "Plan",
    "PlanEntry",
    "ProtocolError",
    "ProviderInfo",
    "RemoteProtocolError",
    "RequestCancelled",
    "RequestError",
    "ResourceLink",
    "ResourceNotFound",
    "SelectOption",
    "Session",
    "SessionInfo",
    "SessionMessage",
    "SessionStatus",
    "SessionStore",
    "SqliteStore",
    "StartError",
    "StateChanged",
    "Subagent",
    "SubagentSession",
    "SystemPrompt",
    "TerminalOutputChunk",
    "Text",
    "TextContent",
    "Thought",
    "TitleChanged",
    "TokenUsage",
    "ToolCall",
    "ToolCallLocation",
    "Transcript",
    "TransportError",
    "Turn",
    "Unknown",
    "UnknownUpdate",
    "UnsupportedVersion",
    "UpdatedAtChanged",
    "UsageChanged",
    "UserText",
    "VersionNotOffered",
    "__version__",
    "ask",
    "connect",
    "serve",
)

# The batteries are imported when they are first named.
_LAZY = {
    "AskResult": "accord.client.ask",
    "ask": "accord.client.ask",
    "ConnectedAgent": "accord.client.connect",
    "connect": "accord.client.connect",
    "CommandsChanged": "accord.client.events",
    "Compaction": "accord.client.events",
    "ContentChunk": "accord.client.events",
    "ModeChanged": "accord.client.events",
    "Notice": "accord.client.events",
    "OptionsChanged": "accord.client.events",
    "PermissionDecided": "accord.client.events",
    "PermissionRequest": "accord.client.events",
    "Plan": "accord.client.events",
    "MessageReplaced": "accord.client.events",
    "StateChanged": "accord.client.events",
    "AgentTerminal": "accord.client.events",
    "TerminalOutputChunk": "accord.client.events",
    "Text": "accord.client.events",
    "Thought": "accord.client.events",
    "TitleChanged": "accord.client.events",
    "ToolCall": "accord.client.events",
    "UnknownUpdate": "accord.client.events",
    "UsageChanged": "accord.client.events",
    "UserText": "accord.client.events",
    "ClientSession": "accord.client.session",
    "Message": "accord.client.message",
    "Transcript": "accord.client.transcript",
    "ClientTurn": "accord.client.turn",
    "McpServerHttp": "accord.types.mcp",
    "McpServerSse": "accord.types.mcp",
    "McpServerStdio": "accord.types.mcp",
    "TokenUsage": "accord.types.session",
    "ContextUsage": "accord.types.session",
    "Agent": "accord.agent.agent",
    "serve": "accord.agent.serve",
    "Session": "accord.agent.session",
    "MemoryStore": "accord.agent.store.base",
    "SessionStore": "accord.agent.store.base",
    "SqliteStore": "accord.agent.store.sqlite",
    "Turn": "accord.agent.turn",
    "AudioContent": "accord.types.content",
    "ContentBlock": "accord.types.content",
    "ImageContent": "accord.types.content",
    "ResourceLink": "accord.types.content",
    "Annotations": "accord.types.content",
    "TextContent": "accord.types.content",
    "EmbeddedResource": "accord.types.content",
    "PermissionOption": "accord.types.permission",
    "OptionChoice": "accord.types.session",
    "AvailableCommand": "accord.types.session",
    "Cost": "accord.types.session",
    "Implementation": "accord.types.session",
    "PlanEntry": "accord.types.session",
    "SelectOption": "accord.types.session",
    "BooleanOption": "accord.types.session",
    "Diff": "accord.types.tool_calls",
    "ToolCallLocation": "accord.types.tool_calls",
    "SessionMessage": "accord.client.events",
    "Subagent": "accord.client.events",
    "UpdatedAtChanged": "accord.client.events",
    "SubagentSession": "accord.client.session",
    "SessionInfo": "accord.client.agent_adapter",
    "SessionStatus": "accord.client.agent_adapter",
    "AuthAccount": "accord.types.auth",
    "AuthStatus": "accord.types.auth",
    "ProviderInfo": "accord.types.auth",
    "SystemPrompt": "accord.types.session",
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
