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
    from accord.client.agent_adapter import SessionListing, SessionStatus
    from accord.client.ask import Answer, ask
    from accord.client.connect import ConnectedAgent, connect
    from accord.client.events import (
        Commands,
        Compaction,
        Media,
        ModeChanged,
        Notice,
        Options,
        Permission,
        PermissionRequest,
        Plan,
        Rewritten,
        SessionMessage,
        StateChanged,
        Subagent,
        Terminal,
        TerminalOutput,
        Text,
        Thought,
        TitleChanged,
        ToolCall,
        UnknownUpdate,
        UpdatedAt,
        UsageChanged,
        UserText,
    )
    from accord.client.message import Message
    from accord.client.session import ClientSession, SubagentSession
    from accord.client.transcript import Transcript
    from accord.client.turn import ClientTurn
    from accord.types.auth import Account, LoginStatus, Provider
    from accord.types.content import (
        Annotations,
        Audio,
        Content,
        Image,
        Link,
        Resource,
        TextContent,
    )
    from accord.types.mcp import McpHttp, McpSse, McpStdio
    from accord.types.permission import PermissionOption
    from accord.types.session import (
        Choice,
        Command,
        Cost,
        Info,
        PlanEntry,
        Select,
        Switch,
        SystemPrompt,
        Tokens,
        Usage,
    )
    from accord.types.tool_calls import Diff, Location

__all__ = (
    "UNSET",
    "AccordError",
    "Account",
    "Agent",
    "Annotations",
    "Answer",
    "Audio",
    "AuthRequired",
    "BacklogExceeded",
    "CancelTimeout",
    "Choice",
    "ClientSession",
    "ClientTurn",
    "Command",
    "Commands",
    "Compaction",
    "ConnectedAgent",
    "ConnectionClosed",
    "ConnectionLost",
    "Content",
    "Cost",
    "DecodeError",
    "Diff",
    "FrameTooLarge",
    "Image",
    "Info",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "Link",
    "LocalProtocolError",
    "Location",
    "LoginStatus",
    "McpHttp",
    "McpSse",
    "McpStdio",
    "Media",
    "MemoryStore",
    "Message",
    "MethodNotFound",
    "ModeChanged",
    "NotOffered",
    "Notice",
    "Options",
    "ParseError",
    "Permission",
    "PermissionOption",
    "PermissionRequest",
    "Plan",
    "PlanEntry",
    "ProtocolError",
    "Provider",
    "RemoteProtocolError",
    "RequestCancelled",
    "RequestError",
    "Resource",
    "ResourceNotFound",
    "Rewritten",
    "Select",
    "Session",
    "SessionListing",
    "SessionMessage",
    "SessionStatus",
    "SessionStore",
    "SqliteStore",
    "StartError",
    "StateChanged",
    "Subagent",
    "SubagentSession",
    "Switch",
    "SystemPrompt",
    "Terminal",
    "TerminalOutput",
    "Text",
    "TextContent",
    "Thought",
    "TitleChanged",
    "Tokens",
    "ToolCall",
    "Transcript",
    "TransportError",
    "Turn",
    "Unknown",
    "UnknownUpdate",
    "UnsupportedVersion",
    "UpdatedAt",
    "Usage",
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
    "Answer": "accord.client.ask",
    "ask": "accord.client.ask",
    "ConnectedAgent": "accord.client.connect",
    "connect": "accord.client.connect",
    "Commands": "accord.client.events",
    "Compaction": "accord.client.events",
    "Media": "accord.client.events",
    "ModeChanged": "accord.client.events",
    "Notice": "accord.client.events",
    "Options": "accord.client.events",
    "Permission": "accord.client.events",
    "PermissionRequest": "accord.client.events",
    "Plan": "accord.client.events",
    "Rewritten": "accord.client.events",
    "StateChanged": "accord.client.events",
    "Terminal": "accord.client.events",
    "TerminalOutput": "accord.client.events",
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
    "McpHttp": "accord.types.mcp",
    "McpSse": "accord.types.mcp",
    "McpStdio": "accord.types.mcp",
    "Tokens": "accord.types.session",
    "Usage": "accord.types.session",
    "Agent": "accord.agent.agent",
    "serve": "accord.agent.serve",
    "Session": "accord.agent.session",
    "MemoryStore": "accord.agent.store.base",
    "SessionStore": "accord.agent.store.base",
    "SqliteStore": "accord.agent.store.sqlite",
    "Turn": "accord.agent.turn",
    "Audio": "accord.types.content",
    "Content": "accord.types.content",
    "Image": "accord.types.content",
    "Link": "accord.types.content",
    "Annotations": "accord.types.content",
    "TextContent": "accord.types.content",
    "Resource": "accord.types.content",
    "PermissionOption": "accord.types.permission",
    "Choice": "accord.types.session",
    "Command": "accord.types.session",
    "Cost": "accord.types.session",
    "Info": "accord.types.session",
    "PlanEntry": "accord.types.session",
    "Select": "accord.types.session",
    "Switch": "accord.types.session",
    "Diff": "accord.types.tool_calls",
    "Location": "accord.types.tool_calls",
    "SessionMessage": "accord.client.events",
    "Subagent": "accord.client.events",
    "UpdatedAt": "accord.client.events",
    "SubagentSession": "accord.client.session",
    "SessionListing": "accord.client.agent_adapter",
    "SessionStatus": "accord.client.agent_adapter",
    "Account": "accord.types.auth",
    "LoginStatus": "accord.types.auth",
    "Provider": "accord.types.auth",
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
