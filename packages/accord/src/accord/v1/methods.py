"""Version 1 as tables: its methods, the gates of variants and of params, and `SPEC`.

The rows of methods are beside their types, in the modules that `types` collects. The typed roles
and the proxy (`roles`, `proxy_role`) are generated from these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from accord.v1 import client_requests, initialize, session, updates
from accord.v1 import types as t
from accord.v1.early_spellings import LEGACY_METHODS, translate_early
from accord.wire.protocol import Method, ProtocolSpec

__all__ = ("METHODS", "VARIANT_GATES")

METHODS: tuple[Method, ...] = (
    *initialize.METHODS,
    *session.METHODS,
    *updates.METHODS,
    *client_requests.METHODS,
    Method(
        name="mcp/message",
        call="message_mcp",
        doc="Pass a request to an MCP server that the client provides.",
        params=t.MessageMcpRequest,
        result=t.MessageMcpResponse,
        to="client",
        unstable=True,
        gate="agent.mcp_capabilities.acp",
    ),
    Method(
        name="mcp/message",
        call="notify_mcp",
        doc="Handle a notification of an MCP server that the client provides.",
        caller_doc="Pass a notification of an MCP server to the agent.",
        params=t.MessageMcpNotification,
        to="agent",
        unstable=True,
        gate="agent.mcp_capabilities.acp",
    ),
    Method(
        name="proxy/successor",
        call="successor",
        params=t.ProxySuccessorRequest,
        result=t.ProxySuccessorResponse,
        to="proxy",
        unstable=True,
    ),
    Method(
        name="proxy/successor",
        call="notify_successor",
        params=t.ProxySuccessorNotification,
        to="proxy",
        unstable=True,
    ),
)

# The gates of variants of params, in addition to the gate of the method.
VARIANT_GATES: dict[type[Any], str] = {
    t.Notice: "client.session.notices",
    t.CompactionUpdate: "client.session.compaction",
    t.CompactionSummaryChunk: "client.session.compaction",
    t.PlanUpdate: "client.plan",
    t.PlanRemoved: "client.plan",
    t.SubagentUpdate: "client.subagents",
    t.SessionMessage: "client.subagents",
    t.SessionMessageChunk: "client.subagents",
    t.ElicitationFormMode: "client.elicitation.form",
    t.ElicitationUrlMode: "client.elicitation.url",
}


# The parts of params that need a capability in addition to that of the method.


def _prompt(params: t.PromptRequest) -> Iterator[tuple[str, str]]:
    for block in params.prompt:
        yield from _block(block)


def _list(params: t.ListSessionsRequest) -> Iterator[tuple[str, str]]:
    if params.archived is not None:
        yield "archived", "agent.session_capabilities.archive"


def _config(params: t.SetSessionConfigOptionRequest) -> Iterator[tuple[str, str]]:
    if isinstance(params, t.SetSessionConfigOptionBoolean):
        yield "a boolean value", "client.session.config_options.boolean"


def _setup(
    params: t.NewSessionRequest
    | t.LoadSessionRequest
    | t.ResumeSessionRequest
    | t.ForkSessionRequest,
) -> Iterator[tuple[str, str]]:
    offered = "agent.session_capabilities"
    if params.additional_directories:
        yield "additionalDirectories", f"{offered}.additional_directories"
    for server in params.mcp_servers:
        yield from _server(server)
    if params.system_prompt is not None:
        yield "systemPrompt", f"{offered}.system_prompt"
        if params.system_prompt.mode == "override":
            yield "systemPrompt in mode override", f"{offered}.system_prompt.mode.override"


def _server(server: t.McpServer) -> Iterator[tuple[str, str]]:
    match server:
        case t.McpServerHttp():
            yield "an MCP server of type http", "agent.mcp_capabilities.http"
        case t.McpServerSse():
            yield "an MCP server of type sse", "agent.mcp_capabilities.sse"
        case t.McpServerAcp():
            yield "an MCP server of type acp", "agent.mcp_capabilities.acp"
        case _:
            pass


def _block(block: t.ContentBlock) -> Iterator[tuple[str, str]]:
    match block:
        case t.ImageContent():
            yield "an image", "agent.prompt_capabilities.image"
        case t.AudioContent():
            yield "audio", "agent.prompt_capabilities.audio"
        case t.EmbeddedResource():
            yield "an embedded resource", "agent.prompt_capabilities.embedded_context"
        case _:
            pass


# By call: what yields the parts that have to be offered, each with its gate.
PARAM_GATES: dict[str, Callable[[Any], Iterator[tuple[str, str]]]] = {
    "prompt": _prompt,
    "new_session": _setup,
    "load_session": _setup,
    "resume_session": _setup,
    "fork_session": _setup,
    "list_sessions": _list,
    "set_session_config_option": _config,
}


# The version as a whole.


def _agent_capabilities(result: t.InitializeResponse) -> t.AgentCapabilities:
    return result.agent_capabilities


def _client_capabilities(params: t.InitializeRequest) -> t.ClientCapabilities:
    return params.client_capabilities


SPEC = ProtocolSpec(
    version=1,
    methods=METHODS,
    variant_gates=VARIANT_GATES,
    initialize_request=t.InitializeRequest,
    initialize_response=t.InitializeResponse,
    capability_types={"agent": t.AgentCapabilities, "client": t.ClientCapabilities},
    agent_capabilities=_agent_capabilities,
    client_capabilities=_client_capabilities,
    cancelled_results={
        # R-CANCEL-05, A-36: a cancelled turn is a result.
        "session/prompt": lambda: t.PromptResponse(stop_reason="cancelled"),
        #
        "session/request_permission": lambda: t.RequestPermissionResponse(
            outcome=t.CancelledPermissionOutcome()
        ),
        #
        "elicitation/create": lambda: t.ElicitationCancelAction(),
    },
    extra_gates={"create_elicitation": "client.elicitation.form"},
    param_gates=PARAM_GATES,
    legacy_methods=LEGACY_METHODS,
    translate_early=translate_early,
)
