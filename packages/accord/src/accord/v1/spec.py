"""Version 1 as a `ProtocolSpec`."""

from __future__ import annotations

from accord.roles.spec import ProtocolSpec
from accord.v1.early_spellings import LEGACY_METHODS, translate_early
from accord.v1.elicitation import ElicitationCancelAction
from accord.v1.initialize import (
    AgentCapabilities,
    ClientCapabilities,
    InitializeRequest,
    InitializeResponse,
)
from accord.v1.methods import METHODS, VARIANT_GATES
from accord.v1.param_gates import PARAM_GATES
from accord.v1.permission import CancelledPermissionOutcome, RequestPermissionResponse
from accord.v1.prompt import PromptResponse

__all__ = ("SPEC",)


def _agent_capabilities(result: InitializeResponse) -> AgentCapabilities:
    return result.agent_capabilities


def _client_capabilities(params: InitializeRequest) -> ClientCapabilities:
    return params.client_capabilities


SPEC = ProtocolSpec(
    version=1,
    methods=METHODS,
    variant_gates=VARIANT_GATES,
    initialize_request=InitializeRequest,
    initialize_response=InitializeResponse,
    capability_types={"agent": AgentCapabilities, "client": ClientCapabilities},
    agent_capabilities=_agent_capabilities,
    client_capabilities=_client_capabilities,
    cancelled_results={
        # R-CANCEL-05, A-36: a cancelled turn is a result.
        "session/prompt": lambda: PromptResponse(stop_reason="cancelled"),
        #
        "session/request_permission": lambda: RequestPermissionResponse(
            outcome=CancelledPermissionOutcome()
        ),
        #
        "elicitation/create": lambda: ElicitationCancelAction(),
    },
    extra_gates={"create_elicitation": "client.elicitation.form"},
    param_gates=PARAM_GATES,
    legacy_methods=LEGACY_METHODS,
    translate_early=translate_early,
)
