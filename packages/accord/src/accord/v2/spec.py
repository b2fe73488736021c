"""Version 2 as a `ProtocolSpec`."""

from __future__ import annotations

from typing import Any

from accord.roles.spec import ProtocolSpec
from accord.v2.elicitation import ElicitationCancelAction
from accord.v2.initialize import (
    AgentCapabilities,
    ClientCapabilities,
    InitializeRequest,
    InitializeResponse,
)
from accord.v2.methods import METHODS, VARIANT_GATES
from accord.v2.param_gates import PARAM_GATES
from accord.v2.permission import CancelledPermissionOutcome, RequestPermissionResponse

__all__ = ("SPEC",)


def _agent_capabilities(result: InitializeResponse) -> AgentCapabilities:
    return result.capabilities


def _client_capabilities(params: InitializeRequest) -> ClientCapabilities:
    return params.capabilities


def _as_it_is(method: str, params: Any) -> tuple[str, Any]:
    return method, params


SPEC = ProtocolSpec(
    version=2,
    methods=METHODS,
    variant_gates=VARIANT_GATES,
    initialize_request=InitializeRequest,
    initialize_response=InitializeResponse,
    capability_types={"agent": AgentCapabilities, "client": ClientCapabilities},
    agent_capabilities=_agent_capabilities,
    client_capabilities=_client_capabilities,
    cancelled_results={
        #
        "session/request_permission": lambda: RequestPermissionResponse(
            outcome=CancelledPermissionOutcome()
        ),
        #
        "elicitation/create": lambda: ElicitationCancelAction(),
    },
    extra_gates={"create_elicitation": "client.elicitation.form"},
    optional=frozenset({"set_session_config_option"}),
    param_gates=PARAM_GATES,
    legacy_methods={},
    translate_early=_as_it_is,
)
