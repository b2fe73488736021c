"""The methods of v2: their types, serving sides and gates."""

from __future__ import annotations

from accord.v2 import (
    auth,
    cancel,
    config,
    elicitation,
    initialize,
    permission,
    prompt,
    providers,
    proxy,
    session,
    update,
)
from accord.wire.method import Method
from accord.wire.shared import mcp_message
from accord.wire.shared import proxy as successor

__all__ = ("METHODS", "VARIANT_GATES")

METHODS: tuple[Method, ...] = (
    *initialize.METHODS,
    *auth.METHODS,
    *session.METHODS,
    *prompt.METHODS,
    *cancel.METHODS,
    *config.METHODS,
    *providers.METHODS,
    *update.METHODS,
    *permission.METHODS,
    *elicitation.METHODS,
    *proxy.METHODS,
    Method(
        name="mcp/message",
        call="notify_mcp",
        params=mcp_message.MessageMcpNotification,
        to="agent",
        unstable=True,
        gate="agent.session.mcp.acp",
    ),
    Method(
        name="mcp/message",
        call="message_mcp",
        params=mcp_message.MessageMcpRequest,
        result=mcp_message.MessageMcpResponse,
        to="client",
        unstable=True,
        gate="agent.session.mcp.acp",
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

# The gates of variants of params, in addition to the gate of the method.
VARIANT_GATES: dict[type, str] = {
    elicitation.ElicitationFormMode: "client.elicitation.form",
    elicitation.ElicitationUrlMode: "client.elicitation.url",
}
