"""The Agent Client Protocol for Python.

`Agent` and `serve` are for agents, `connect` and `ask` for clients; one class serves both versions
of the protocol. `accord.v1` and `accord.v2` have the complete typed values of each version.

How a message travels: a transport (`transports`) carries frames; `jsonrpc` splits and pairs them;
`connection` puts each into the lane of its session and bounds what waits; the types of `v1` and
`v2` are decoded by `wire`; `roles` serves and calls the methods of one version, after `initialize`
has chosen it; `agent` and `client` are one API over both, with the values of `types`. `proxy`
changes messages on their way, `remote` carries them over WebSocket and HTTP, `mcp` over the same
connection. `rules` has what the protocol demands as tables.

Read `v2/__init__.py`, `roles/binding.py` and `connection/connection.py` first. A folder imports
folders below it only: docs/explanation/design.md has their order and the reasons.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from accord import errors as _errors
from accord.errors import *
from accord.version import __version__ as __version__
from accord.wire.base import UNSET as UNSET

# Type checkers read these imports, Python the table below; a test keeps them equal.
if TYPE_CHECKING:
    from accord.agent.agent import Agent as Agent
    from accord.agent.agent import serve as serve
    from accord.agent.session import Session as Session
    from accord.agent.store import MemoryStore as MemoryStore, SessionStore as SessionStore
    from accord.agent.store.postgres import PostgresStore as PostgresStore
    from accord.agent.store.sqlite import SqliteStore as SqliteStore
    from accord.agent.session import Turn as Turn
    from accord.agent.work import SteeringMessage as SteeringMessage
    from accord.client.agent_adapter import (
        SessionInfo as SessionInfo,
        SessionStatus as SessionStatus,
    )
    from accord.client.ask import AskResult as AskResult, ask as ask
    from accord.client.budget import (
        Budget as Budget,
        LimitReached as LimitReached,
        SpendingLedger as SpendingLedger,
        Spent as Spent,
    )
    from accord.client.connect import ConnectedAgent as ConnectedAgent, connect as connect
    from accord.client.events import (
        AgentTerminal as AgentTerminal,
        CommandsChanged as CommandsChanged,
        Compaction as Compaction,
        ContentChunk as ContentChunk,
        MessageReplaced as MessageReplaced,
        ModeChanged as ModeChanged,
        Notice as Notice,
        OptionsChanged as OptionsChanged,
        PermissionDecided as PermissionDecided,
        PermissionRequest as PermissionRequest,
        Plan as Plan,
        SessionMessage as SessionMessage,
        StateChanged as StateChanged,
        Subagent as Subagent,
        TerminalOutputChunk as TerminalOutputChunk,
        Text as Text,
        Thought as Thought,
        TitleChanged as TitleChanged,
        ToolCall as ToolCall,
        UnknownUpdate as UnknownUpdate,
        UpdatedAtChanged as UpdatedAtChanged,
        UsageChanged as UsageChanged,
        UserText as UserText,
    )
    from accord.client.transcript import Message as Message
    from accord.client.session import (
        ClientSession as ClientSession,
        SubagentSession as SubagentSession,
    )
    from accord.client.transcript import Transcript as Transcript
    from accord.client.turn import ClientTurn as ClientTurn, Steered as Steered
    from accord.mcp.provider import tool as tool
    from accord.proxy.chain import Chain as Chain, chain as chain
    from accord.proxy.conductor import Component as Component
    from accord.proxy.chain import component as component
    from accord.proxy.proxy import Proxy as Proxy
    from accord.proxy.hooks import OpeningSession as OpeningSession
    from accord.proxy.hooks import ProxyTurn as ProxyTurn
    from accord.remote.access import Principal as Principal, RemoteRequest as RemoteRequest
    from accord.remote.asgi import asgi as asgi
    from accord.transports.registry import (
        ConnectionChange as ConnectionChange,
        Reconnect as Reconnect,
    )
    from accord.types.content import (
        Annotations as Annotations,
        AudioContent as AudioContent,
        ContentBlock as ContentBlock,
        EmbeddedResource as EmbeddedResource,
        ImageContent as ImageContent,
        ResourceLink as ResourceLink,
        TextContent as TextContent,
    )
    from accord.types.mcp import (
        McpServerAcp as McpServerAcp,
        McpServerHttp as McpServerHttp,
        McpServerSse as McpServerSse,
        McpServerStdio as McpServerStdio,
    )
    from accord.types.permission import PermissionOption as PermissionOption
    from accord.types.session import (
        AuthAccount as AuthAccount,
        AuthStatus as AuthStatus,
        AvailableCommand as AvailableCommand,
        BooleanOption as BooleanOption,
        ContextUsage as ContextUsage,
        Cost as Cost,
        Implementation as Implementation,
        OptionChoice as OptionChoice,
        PlanEntry as PlanEntry,
        ProviderInfo as ProviderInfo,
        SelectOption as SelectOption,
        SystemPrompt as SystemPrompt,
        TokenUsage as TokenUsage,
    )
    from accord.types.tool_calls import Diff as Diff, ToolCallLocation as ToolCallLocation
else:
    # Imported when first used, to keep start-up fast.
    _LAZY = {
        name: module
        for module, names in {
            "accord.agent.agent": "Agent serve",
            "accord.agent.session": "Session Turn",
            "accord.agent.store": "MemoryStore SessionStore",
            "accord.agent.store.postgres": "PostgresStore",
            "accord.agent.store.sqlite": "SqliteStore",
            "accord.agent.work": "SteeringMessage",
            "accord.client.agent_adapter": "SessionInfo SessionStatus",
            "accord.client.ask": "AskResult ask",
            "accord.client.budget": "Budget LimitReached SpendingLedger Spent",
            "accord.client.connect": "ConnectedAgent connect",
            "accord.client.events": (
                "AgentTerminal CommandsChanged Compaction ContentChunk MessageReplaced ModeChanged "
                "Notice OptionsChanged PermissionDecided PermissionRequest Plan SessionMessage "
                "StateChanged Subagent TerminalOutputChunk Text Thought TitleChanged ToolCall "
                "UnknownUpdate UpdatedAtChanged UsageChanged UserText"
            ),
            "accord.client.session": "ClientSession SubagentSession",
            "accord.client.transcript": "Message Transcript",
            "accord.client.turn": "ClientTurn Steered",
            "accord.mcp.provider": "tool",
            "accord.proxy.chain": "Chain chain component",
            "accord.proxy.conductor": "Component",
            "accord.proxy.hooks": "OpeningSession ProxyTurn",
            "accord.proxy.proxy": "Proxy",
            "accord.remote.access": "Principal RemoteRequest",
            "accord.remote.asgi": "asgi",
            "accord.transports.registry": "ConnectionChange Reconnect",
            "accord.types.content": (
                "Annotations AudioContent ContentBlock EmbeddedResource ImageContent ResourceLink "
                "TextContent"
            ),
            "accord.types.mcp": "McpServerAcp McpServerHttp McpServerSse McpServerStdio",
            "accord.types.permission": "PermissionOption",
            "accord.types.session": (
                "AuthAccount AuthStatus AvailableCommand BooleanOption ContextUsage Cost "
                "Implementation OptionChoice PlanEntry ProviderInfo SelectOption SystemPrompt "
                "TokenUsage"
            ),
            "accord.types.tool_calls": "Diff ToolCallLocation",
        }.items()
        for name in names.split()
    }
    __all__ = ("UNSET", "__version__", *_errors.__all__, *_LAZY)

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """Return the names for completion, without what only this module uses."""
        return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
