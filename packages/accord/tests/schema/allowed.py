"""Deliberate differences between the wire types and the schema, each with its reason.

A test fails when an entry is no longer needed.
"""

from __future__ import annotations

# The schema uses one name for a state and for the update that has it.
OTHER_NAMES = {
    "v1": {"SessionState": "StateUpdate"},
    "v2": {"SessionState": "StateUpdate"},
}

_BOTH = {
    "ToolCallUpdate name": "without the tag of an update it is a class of its own",
    "SetSessionConfigOptionRequest[boolean] name": "the schema has no name for the variant",
    "CreateElicitationResponse[cancel] name": "the schema has no name for the variant",
    "CreateElicitationResponse[decline] name": "the schema has no name for the variant",
    "MessageMcpResponse name": "the schema has no names for the two variants",
    "IdleStateUpdate[idle] name": "told apart from the update that tells it",
    "RequiresActionStateUpdate[requires_action] name": "told apart from the update that tells it",
    "RunningStateUpdate[running] name": "told apart from the update that tells it",
    "UnknownStateUpdate[unknown] name": "told apart from the update that tells it",
    "ElicitationSessionScope definition": "its fields are in CreateElicitationBase",
    "ElicitationRequestScope definition": "its fields are in CreateElicitationBase",
    "ErrorStopReason definition": "its field is in the idle state",
    "ExtRequest definition": "extension messages carry any JSON",
    "ExtResponse definition": "extension messages carry any JSON",
    "ExtNotification definition": "extension messages carry any JSON",
}
V1 = _BOTH | {
    "ToolCall[tool_call].kind default": "the schema does not say what the explanation says: other",
    "ToolCall[tool_call].status default": "the explanation says it, the schema not: pending",
    "SetSessionConfigOptionRequest name": "the schema has no name for the variant",
    "RequestPermissionOutcome[cancelled] name": "the schema has no name for it, v2 has this one",
    "RunningStateUpdate definition": "v1 has states only on their own: RunningState",
    "IdleStateUpdate definition": "v1 has states only on their own: IdleState",
    "RequiresActionStateUpdate definition": "v1 has states only on their own: RequiresActionState",
    "UnknownStateUpdate definition": "v1 has states only on their own: UnknownState",
}
V2 = _BOTH | {
    "IdleState class": "only unstable messages carry a state on its own",
    "RequiresActionState class": "only unstable messages carry a state on its own",
    "RunningState class": "only unstable messages carry a state on its own",
    "SetSessionConfigOptionRequest[id] name": "the schema has no name for the variant",
    "DiffPathChange[add] name": "one class for each operation",
    "DiffPathChange[delete] name": "one class for each operation",
    "DiffPathChange[modify] name": "one class for each operation",
    "DiffPathPairChange[move] name": "one class for each operation",
    "DiffPathPairChange[copy] name": "one class for each operation",
}

ALLOWED: dict[str, dict[str, str]] = {"v1": V1, "v2": V2}
