"""What the binding and the router have to know of version 2."""

from __future__ import annotations

from typing import Any

from accord.roles.binding import Kit
from accord.v2.elicitation import ElicitationCancelAction
from accord.v2.initialize import (
    AgentCapabilities,
    ClientCapabilities,
    InitializeRequest,
    InitializeResponse,
)
from accord.v2.methods import METHODS, VARIANT_GATES
from accord.v2.param_gates import NEEDS
from accord.v2.permission import CancelledPermissionOutcome, RequestPermissionResponse

__all__ = ("KIT",)


def _agent_capabilities(result: InitializeResponse) -> AgentCapabilities:
    return result.capabilities


def _client_capabilities(params: InitializeRequest) -> ClientCapabilities:
    return params.capabilities


def _as_it_is(method: str, params: Any) -> tuple[str, Any]:
    return method, params


KIT = Kit(
    version=2,
    methods=METHODS,
    variant_gates=VARIANT_GATES,
    initialize_request=InitializeRequest,
    initialize_response=InitializeResponse,
    agent_capabilities=_agent_capabilities,
    client_capabilities=_client_capabilities,
    cancelled={
        #
        "session/request_permission": lambda: RequestPermissionResponse(
            outcome=CancelledPermissionOutcome()
        ),
        #
        "elicitation/create": lambda: ElicitationCancelAction(),
    },
    opened_by={"create_elicitation": "client.elicitation.form"},
    optional=frozenset({"set_session_config_option"}),
    needs=NEEDS,
    legacy_methods={},
    modernize=_as_it_is,
)
