"""Version 2 as tables: its methods, the gates of variants and of params, and `SPEC`.

The rows of methods are beside their types, in the modules that `types` collects. The typed roles
and the proxy (`roles`, `proxy_role`) are generated from these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from accord.v2 import client_requests, initialize, session, updates
from accord.v2 import types as t
from accord.wire.base import Unknown
from accord.wire.protocol import Method, ProtocolSpec

__all__ = ("METHODS", "VARIANT_GATES")

METHODS: tuple[Method, ...] = (
    *initialize.METHODS,
    *session.METHODS,
    *updates.METHODS,
    *client_requests.METHODS,
    Method(
        name="mcp/message",
        call="notify_mcp",
        doc="Handle a notification of an MCP server that the client provides.",
        caller_doc="Pass a notification of an MCP server to the agent.",
        params=t.MessageMcpNotification,
        to="agent",
        unstable=True,
        gate="agent.session.mcp.acp",
    ),
    Method(
        name="mcp/message",
        call="message_mcp",
        doc="Pass a request to an MCP server that the client provides.",
        params=t.MessageMcpRequest,
        result=t.MessageMcpResponse,
        to="client",
        unstable=True,
        gate="agent.session.mcp.acp",
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
VARIANT_GATES: dict[type, str] = {
    t.ElicitationFormMode: "client.elicitation.form",
    t.ElicitationUrlMode: "client.elicitation.url",
}


# The parts of params that need a capability in addition to that of the method.

# A gate that is never open, for unknown variants: an agent rejects them (R-CONT-05).
_NEVER = "agent.session.unknown"


def _prompt(params: t.PromptRequest) -> Iterator[tuple[str, str]]:
    for block in params.prompt:
        yield from _block(block)


def _list(params: t.ListSessionsRequest) -> Iterator[tuple[str, str]]:
    if params.archived is not None:
        yield "archived", "agent.session.archive"


def _config(params: t.SetSessionConfigOptionRequest) -> Iterator[tuple[str, str]]:
    if isinstance(params, Unknown):
        yield f"a value of type {params.tag!r}", _NEVER


def _resume(params: t.ResumeSessionRequest) -> Iterator[tuple[str, str]]:
    yield from _setup(params)
    if isinstance(params.replay_from, Unknown):  # R-SESS-16
        yield f"a replay from {params.replay_from.tag!r}", _NEVER


def _setup(
    params: t.NewSessionRequest | t.ResumeSessionRequest | t.ForkSessionRequest,
) -> Iterator[tuple[str, str]]:
    if params.additional_directories:
        yield "additionalDirectories", "agent.session.additional_directories"
    for server in params.mcp_servers:
        yield from _server(server)
    if params.system_prompt is not None:
        yield "systemPrompt", "agent.session.system_prompt"
        if params.system_prompt.mode == "override":
            yield "systemPrompt in mode override", "agent.session.system_prompt.mode.override"


def _server(server: object) -> Iterator[tuple[str, str]]:
    match server:
        case t.McpServerHttp():
            yield "an MCP server of type http", "agent.session.mcp.http"
        case t.McpServerStdio():
            yield "an MCP server of type stdio", "agent.session.mcp.stdio"
        case t.McpServerAcp():
            yield "an MCP server of type acp", "agent.session.mcp.acp"
        case Unknown(tag):
            yield f"an MCP server of type {tag!r}", _NEVER
        case _:
            pass


def _block(block: object) -> Iterator[tuple[str, str]]:
    match block:
        case t.ImageContent():
            yield "an image", "agent.session.prompt.image"
        case t.AudioContent():
            yield "audio", "agent.session.prompt.audio"
        case t.EmbeddedResource():
            yield "an embedded resource", "agent.session.prompt.embedded_context"
        case Unknown(tag):
            yield f"content of type {tag!r}", _NEVER
        case _:
            pass


# By call: what yields the parts that have to be offered, each with its gate.
PARAM_GATES: dict[str, Callable[[Any], Iterator[tuple[str, str]]]] = {
    "prompt": _prompt,
    "new_session": _setup,
    "resume_session": _resume,
    "fork_session": _setup,
    "list_sessions": _list,
    "set_session_config_option": _config,
}


# The version as a whole.


def _agent_capabilities(result: t.InitializeResponse) -> t.AgentCapabilities:
    return result.capabilities


def _client_capabilities(params: t.InitializeRequest) -> t.ClientCapabilities:
    return params.capabilities


def _as_it_is(method: str, params: Any) -> tuple[str, Any]:
    return method, params


SPEC = ProtocolSpec(
    version=2,
    methods=METHODS,
    variant_gates=VARIANT_GATES,
    initialize_request=t.InitializeRequest,
    initialize_response=t.InitializeResponse,
    capability_types={"agent": t.AgentCapabilities, "client": t.ClientCapabilities},
    agent_capabilities=_agent_capabilities,
    client_capabilities=_client_capabilities,
    cancelled_results={
        #
        "session/request_permission": lambda: t.RequestPermissionResponse(
            outcome=t.CancelledPermissionOutcome()
        ),
        #
        "elicitation/create": lambda: t.ElicitationCancelAction(),
    },
    extra_gates={"create_elicitation": "client.elicitation.form"},
    optional=frozenset({"set_session_config_option"}),
    param_gates=PARAM_GATES,
    legacy_methods={},
    translate_early=_as_it_is,
)
