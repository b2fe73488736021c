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
    from accord.agent.serving import serve
    from accord.agent.session import Session
    from accord.agent.store import MemoryStore, SessionStore
    from accord.agent.store_sqlite import SqliteStore
    from accord.agent.turn import Turn
    from accord.client.ask import Answer, ask
    from accord.client.connect import ConnectedAgent, connect
    from accord.client.dialect import SessionListing, SessionStatus
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
    from accord.model.content import (
        Annotations,
        Audio,
        Content,
        Image,
        Link,
        Resource,
        TextContent,
    )
    from accord.model.login import Account, LoginStatus, Provider
    from accord.model.mcp import McpHttp, McpSse, McpStdio
    from accord.model.permission import PermissionOption
    from accord.model.session import (
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
    from accord.model.tools import Diff, Location

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
    "McpHttp": "accord.model.mcp",
    "McpSse": "accord.model.mcp",
    "McpStdio": "accord.model.mcp",
    "Tokens": "accord.model.session",
    "Usage": "accord.model.session",
    "Agent": "accord.agent.agent",
    "serve": "accord.agent.serving",
    "Session": "accord.agent.session",
    "MemoryStore": "accord.agent.store",
    "SessionStore": "accord.agent.store",
    "SqliteStore": "accord.agent.store_sqlite",
    "Turn": "accord.agent.turn",
    "Audio": "accord.model.content",
    "Content": "accord.model.content",
    "Image": "accord.model.content",
    "Link": "accord.model.content",
    "Annotations": "accord.model.content",
    "TextContent": "accord.model.content",
    "Resource": "accord.model.content",
    "PermissionOption": "accord.model.permission",
    "Choice": "accord.model.session",
    "Command": "accord.model.session",
    "Cost": "accord.model.session",
    "Info": "accord.model.session",
    "PlanEntry": "accord.model.session",
    "Select": "accord.model.session",
    "Switch": "accord.model.session",
    "Diff": "accord.model.tools",
    "Location": "accord.model.tools",
    "SessionMessage": "accord.client.events",
    "Subagent": "accord.client.events",
    "UpdatedAt": "accord.client.events",
    "SubagentSession": "accord.client.session",
    "SessionListing": "accord.client.dialect",
    "SessionStatus": "accord.client.dialect",
    "Account": "accord.model.login",
    "LoginStatus": "accord.model.login",
    "Provider": "accord.model.login",
    "SystemPrompt": "accord.model.session",
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
