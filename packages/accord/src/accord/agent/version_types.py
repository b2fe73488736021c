"""The types that both versions have, as code for both versions uses them."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ("VersionTypes",)


class VersionTypes(Protocol):
    """The package of a version, `accord.v1` or `accord.v2`: its types that are built alike."""

    ArchiveSessionResponse: type[Any]
    AuthAccount: type[Any]
    AuthMethodAgent: type[Any]
    AuthMethodTerminal: type[Any]
    AuthStatusResponse: type[Any]
    AuthStatusUpdateNotification: type[Any]
    CompactionSummaryChunk: type[Any]
    CompactionUpdate: type[Any]
    CompleteElicitationNotification: type[Any]
    Cost: type[Any]
    DeleteSessionResponse: type[Any]
    DisableProviderResponse: type[Any]
    ElicitationAcceptAction: type[Any]
    ElicitationFormMode: type[Any]
    ElicitationSchema: type[Any]
    ElicitationUrlMode: type[Any]
    ForkSessionResponse: type[Any]
    IdleState: type[Any]
    Implementation: type[Any]
    ListProvidersResponse: type[Any]
    ListSessionsResponse: type[Any]
    McpServerAcp: type[Any]
    McpServerHttp: type[Any]
    McpServerStdio: type[Any]
    NewSessionResponse: type[Any]
    Notice: type[Any]
    PlanFile: type[Any]
    PlanMarkdown: type[Any]
    PlanRemoved: type[Any]
    PlanUpdate: type[Any]
    ProviderCurrentConfig: type[Any]
    ProviderInfo: type[Any]
    RequiresActionState: type[Any]
    RunningState: type[Any]
    SessionCancelCapabilities: type[Any]
    SessionConfigBoolean: type[Any]
    SessionConfigSelect: type[Any]
    SessionConfigSelectGroup: type[Any]
    SessionConfigSelectOption: type[Any]
    SessionInfo: type[Any]
    SessionMessage: type[Any]
    SessionSystemPromptCapabilities: type[Any]
    SessionSystemPromptModeCapabilities: type[Any]
    SessionSystemPromptOverrideCapabilities: type[Any]
    SetProviderResponse: type[Any]
    SetSessionTitleResponse: type[Any]
    SubagentSessionCapabilities: type[Any]
    SubagentUpdate: type[Any]
    TextContent: type[Any]
    UnarchiveSessionResponse: type[Any]
    Usage: type[Any]
