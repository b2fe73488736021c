"""The methods of version 1, as a table, and the gates of single variants."""

from __future__ import annotations

from typing import Any

from accord.v1 import (
    auth,
    cancel,
    compaction,
    config,
    elicitation,
    fs,
    initialize,
    permission,
    plan,
    prompt,
    providers,
    proxy,
    session,
    subagent,
    terminal,
    update,
)
from accord.wire.method import Method
from accord.wire.shared import mcp_message
from accord.wire.shared import proxy as successor

__all__ = ("METHODS", "VARIANT_GATES")

METHODS: tuple[Method, ...] = (
    *initialize.METHODS,
    *auth.METHODS,
    *cancel.METHODS,
    *session.METHODS,
    *prompt.METHODS,
    *config.METHODS,
    *update.METHODS,
    *permission.METHODS,
    *elicitation.METHODS,
    *fs.METHODS,
    *terminal.METHODS,
    *providers.METHODS,
    *proxy.METHODS,
    Method(
        name="mcp/message",
        call="message_mcp",
        params=mcp_message.MessageMcpRequest,
        result=mcp_message.MessageMcpResponse,
        to="client",
        unstable=True,
        gate="agent.mcp_capabilities.acp",
    ),
    Method(
        name="mcp/message",
        call="notify_mcp",
        params=mcp_message.MessageMcpNotification,
        to="agent",
        unstable=True,
        gate="agent.mcp_capabilities.acp",
    ),
    Method(
        name="proxy/successor",
        call="successor",
        params=successor.ProxySuccessorRequest,
        result=successor.ProxySuccessorResponse,
        to="proxy",
        unstable=True,
    ),
    Method(
        name="proxy/successor",
        call="notify_successor",
        params=successor.ProxySuccessorNotification,
        to="proxy",
        unstable=True,
    ),
)

# What a variant needs beyond its method's gate.
VARIANT_GATES: dict[type[Any], str] = {
    compaction.Notice: "client.session.notices",
    compaction.CompactionUpdate: "client.session.compaction",
    compaction.CompactionSummaryChunk: "client.session.compaction",
    plan.PlanUpdate: "client.plan",
    plan.PlanRemoved: "client.plan",
    subagent.SubagentUpdate: "client.subagents",
    subagent.SessionMessage: "client.subagents",
    subagent.SessionMessageChunk: "client.subagents",
    elicitation.ElicitationFormMode: "client.elicitation.form",
    elicitation.ElicitationUrlMode: "client.elicitation.url",
}
