"""The types of version 1: what they decode, reject, correct and encode."""

from __future__ import annotations

import json
from typing import Any

import pytest

from accord import v1
from accord.errors import DecodeError
from accord.v1.methods import METHODS, VARIANT_GATES
from accord.wire.base import UNSET, Unknown, UnsetType
from accord.wire.codec import convert, decode, encode, to_builtins
from requirement import requirement


def read(value: Any, tp: Any) -> Any:
    """Decode a value and check that the converter agrees."""
    decoded = decode(json.dumps(value).encode(), tp)
    assert convert(value, tp) == decoded
    return decoded


def refused(value: Any, tp: Any) -> str:
    """Return the error for a value, and its place."""
    with pytest.raises(DecodeError) as caught:
        read(value, tp)
    return str(caught.value)


def update(name: str, **fields: Any) -> Any:
    """Decode a session update."""
    return read(
        {"sessionId": "s", "update": {"sessionUpdate": name, **fields}}, v1.SessionNotification
    ).update


# Absent, null and value are three states.


def test_title_can_be_absent_null_or_a_value() -> None:
    assert update("session_info_update") == v1.SessionInfoUpdate()
    assert update("session_info_update").title is UNSET
    assert update("session_info_update", title=None).title is None
    assert update("session_info_update", title="T").title == "T"


def test_malformed_three_state_field_is_absent() -> None:
    seen = update("compaction_update", compactionId="c", status="completed", summary=7, error=7)
    assert (seen.summary, seen.error) == (UNSET, UNSET)


def test_three_states_are_encoded_as_they_are() -> None:
    patch = v1.SubagentUpdate(session_id="c", title=None, cwd="/x", meta=None)
    assert to_builtins(patch) == {
        "sessionUpdate": "subagent_update",
        "sessionId": "c",
        "title": None,
        "cwd": "/x",
        "_meta": None,
    }


@requirement("R-SUBAG-09")
def test_paths_of_a_subagent_are_strict() -> None:
    value = {
        "sessionId": "s",
        "update": {"sessionUpdate": "subagent_update", "sessionId": "c", "cwd": 1},
    }
    assert refused(value, v1.SessionNotification).endswith("at $.update.cwd")


def test_unknown_state_of_a_subagent_is_kept() -> None:
    raw = {"state": "dreaming", "depth": 3}
    assert update("subagent_update", sessionId="c", state=raw).state == Unknown("dreaming", raw)


def test_idle_state_with_an_invalid_stop_reason_is_idle() -> None:
    seen = update("subagent_update", sessionId="c", state={"state": "idle", "stopReason": 3})
    assert seen.state == v1.IdleState()


def test_null_and_absent_data_of_an_mcp_error_differ() -> None:
    assert read({"code": 1, "message": "m"}, v1.McpError).data is UNSET
    assert read({"code": 1, "message": "m", "data": None}, v1.McpError).data is None
    assert encode(v1.McpError(code=1, message="m", data=None)) == (
        b'{"code":1,"message":"m","data":null}'
    )


# Lenient fields.


def test_malformed_capabilities_are_absent() -> None:
    seen = read(
        {
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": "yes",
                "promptCapabilities": [],
                "sessionCapabilities": {"list": {}, "close": True},
            },
        },
        v1.InitializeResponse,
    )
    assert seen.agent_capabilities == v1.AgentCapabilities(
        session_capabilities=v1.SessionCapabilities(list=v1.SessionListCapabilities())
    )


def test_unknown_tool_kind_is_other() -> None:
    seen = update("tool_call", toolCallId="t", title="T", kind="dance", status=None)
    assert (seen.kind, seen.status) == ("other", "pending")


def test_malformed_plan_entries_are_skipped() -> None:
    good = {"content": "a", "priority": "high", "status": "pending"}
    seen = update("plan", entries=[good, good | {"status": "cancelled"}])
    assert seen.entries == [v1.PlanEntry(content="a", priority="high", status="pending")]


@requirement("R-PLAN-14")
def test_required_list_of_the_wrong_type_is_empty_but_must_be_present() -> None:
    assert update("plan", entries=None).entries == []
    missing = {"sessionId": "s", "update": {"sessionUpdate": "plan"}}
    assert "entries" in refused(missing, v1.SessionNotification)


@requirement("R-MCP-11")
def test_null_servers_are_empty_and_missing_servers_are_an_error() -> None:
    assert read({"cwd": "/", "mcpServers": None}, v1.NewSessionRequest).mcp_servers == []
    assert "mcpServers" in refused({"cwd": "/"}, v1.NewSessionRequest)


def test_malformed_server_fails_the_session() -> None:
    servers = [
        {"type": "http", "name": "a", "url": "u", "headers": []},
        {"type": "http", "name": "b"},
    ]
    where = refused({"cwd": "/", "mcpServers": servers}, v1.NewSessionRequest)
    assert where.endswith("at $.mcpServers[1]")


@requirement("R-FS-09")
def test_invalid_line_number_is_an_error_in_a_request_and_ignored_in_a_location() -> None:
    request = {"sessionId": "s", "path": "/f", "line": -1}
    assert refused(request, v1.ReadTextFileRequest).endswith("at $.line")
    assert read({"path": "/f", "line": 2**32}, v1.ToolCallLocation).line is None


def test_error_names_the_item_of_a_list_of_strings() -> None:
    request = {"sessionId": "s", "command": "c", "args": ["a", 1]}
    assert refused(request, v1.CreateTerminalRequest) == ("Expected `str`, got `int` at $.args[1]")


# Closed unions and enums.


def test_unknown_update_is_an_error() -> None:
    value = {"sessionId": "s", "update": {"sessionUpdate": "dream", "_meta": {}}}
    assert refused(value, v1.SessionNotification) == (
        "Invalid value 'dream' at $.update.sessionUpdate"
    )


def test_unknown_content_block_fails_a_prompt_and_is_skipped_in_a_tool_call() -> None:
    block = {"type": "smell"}
    assert refused({"sessionId": "s", "prompt": [block]}, v1.PromptRequest).endswith(
        "at $.prompt[0].type"
    )
    seen = update(
        "tool_call_update", toolCallId="t", content=[{"type": "content", "content": block}]
    )
    assert seen.content == []


def test_unknown_stop_reason_is_an_error() -> None:
    assert refused({"stopReason": "error"}, v1.PromptResponse).endswith("at $.stopReason")


def test_unknown_permission_outcome_is_an_error() -> None:
    assert "outcome" in refused({"outcome": {"outcome": "yes"}}, v1.RequestPermissionResponse)


def test_tool_call_of_a_permission_request_has_no_update_tag() -> None:
    request = v1.RequestPermissionRequest(
        session_id="s",
        tool_call=v1.ToolCallDetails(tool_call_id="t", title="T"),
        options=[v1.PermissionOption(option_id="o", name="O", kind="allow_once")],
    )
    assert to_builtins(request)["toolCall"] == {"toolCallId": "t", "title": "T"}
    assert read(to_builtins(request), v1.RequestPermissionRequest) == request


# Unions with one untagged member.


@requirement("R-AUTH-02", "R-AUTH-24")
def test_auth_method_without_a_known_type_is_an_agent_method() -> None:
    plain = {"id": "a", "name": "A"}
    for more in ({}, {"type": "agent"}, {"type": "env_var"}, {"type": None}):
        seen = read({"protocolVersion": 1, "authMethods": [plain | more]}, v1.InitializeResponse)
        assert seen.auth_methods == [v1.AuthMethodAgent(id="a", name="A")]


@requirement("R-AUTH-30")
def test_malformed_terminal_auth_method_is_not_an_agent_method() -> None:
    entry = {"type": "terminal", "id": "a", "name": "A", "args": "--login"}
    seen = read({"protocolVersion": 1, "authMethods": [entry]}, v1.InitializeResponse)
    assert seen.auth_methods == []


def test_null_args_of_a_terminal_auth_method_are_empty() -> None:
    entry = {"type": "terminal", "id": "a", "name": "A", "args": None, "env": None}
    assert read(entry, v1.AuthMethod) == v1.AuthMethodTerminal(id="a", name="A")


def test_mcp_server_without_a_known_type_is_stdio() -> None:
    stdio = {"name": "n", "command": "/bin/x", "args": [], "env": [{"name": "A", "value": "1"}]}
    server = v1.McpServerStdio(
        name="n", command="/bin/x", args=[], env=[v1.EnvVariable(name="A", value="1")]
    )
    assert read(stdio, v1.McpServer) == server
    assert read(stdio | {"type": "stdio"}, v1.McpServer) == server
    assert to_builtins(server) == stdio


def test_required_lists_of_a_server_are_encoded_when_empty() -> None:
    server = v1.McpServerHttp(name="n", url="u", headers=[])
    assert to_builtins(server) == {"type": "http", "name": "n", "url": "u", "headers": []}


def test_boolean_value_needs_the_type_boolean() -> None:
    option = {"sessionId": "s", "configId": "c"}
    tp = v1.SetSessionConfigOptionRequest
    assert read(option | {"type": "boolean", "value": True}, tp) == (
        v1.SetSessionConfigOptionBoolean(session_id="s", config_id="c", value=True)
    )
    assert refused(option | {"type": "boolean", "value": "true"}, tp).endswith("at $.value")
    assert refused(option | {"value": True}, tp).endswith("at $.value")


@pytest.mark.parametrize("more", [{}, {"type": "id"}, {"type": "later"}])
def test_string_value_of_any_other_type_is_a_choice(more: dict[str, str]) -> None:
    value = {"sessionId": "s", "configId": "c", "value": "v"} | more
    assert read(value, v1.SetSessionConfigOptionRequest) == (
        v1.SetSessionConfigOptionId(session_id="s", config_id="c", value="v")
    )


def test_choices_are_plain_or_in_groups() -> None:
    plain = {"value": "a", "name": "A"}
    group = {"group": "g", "name": "G", "options": [plain, 1]}
    option = {"type": "select", "id": "m", "name": "M", "currentValue": "a"}
    one = v1.SessionConfigSelectOption(value="a", name="A")
    assert read(option | {"options": [plain]}, v1.SessionConfigOption).options == [one]
    assert read(option | {"options": [group]}, v1.SessionConfigOption).options == [
        v1.SessionConfigSelectGroup(group="g", name="G", options=[one])
    ]
    assert read({"configOptions": [option | {"options": 1}]}, v1.ConfigOptionUpdate) == (
        v1.ConfigOptionUpdate(config_options=[])
    )


def test_result_of_an_mcp_response_takes_precedence_over_its_error() -> None:
    error = {"code": 1, "message": "m"}
    tp = v1.MessageMcpResponse
    assert read({"result": None, "error": error}, tp) == v1.MessageMcpResult(result=None)
    assert isinstance(read({"error": error}, tp), v1.MessageMcpError)
    assert "result" in refused({}, tp)


# Elicitation.

FORM = {"mode": "form", "message": "m", "requestedSchema": {}}


@pytest.mark.parametrize(
    ("ids", "session_id", "request_id"),
    [
        ({"sessionId": "s"}, "s", UNSET),
        ({"requestId": 1}, UNSET, 1),
        ({"requestId": None}, UNSET, None),
        ({"sessionId": "s", "requestId": 1.5}, "s", UNSET),
        ({"sessionId": None, "requestId": 1}, UNSET, 1),
    ],
)
def test_elicitation_has_a_session_or_a_request(
    ids: dict[str, Any], session_id: str | UnsetType, request_id: int | UnsetType | None
) -> None:
    seen = read(FORM | ids, v1.CreateElicitationRequest)
    assert (seen.session_id, seen.request_id) == (session_id, request_id)


def test_elicitation_without_a_scope_is_an_error_in_every_mode() -> None:
    for mode in ("form", "url", "voice"):
        value = FORM | {"mode": mode, "elicitationId": "e", "url": "https://x"}
        assert "sessionId" in refused(value, v1.CreateElicitationRequest)


def test_unknown_elicitation_mode_is_kept() -> None:
    raw = {"mode": "voice", "message": "m", "sessionId": "s", "pitch": 440}
    assert read(raw, v1.CreateElicitationRequest) == Unknown("voice", raw)
    assert json.loads(encode(Unknown("voice", raw))) == raw


@requirement("R-ELIC-08")
def test_form_is_encoded_with_its_type_and_properties() -> None:
    assert to_builtins(v1.ElicitationSchema()) == {"type": "object", "properties": {}}
    assert read({"type": "array"}, v1.ElicitationSchema) == v1.ElicitationSchema()
    assert refused({"properties": None}, v1.ElicitationSchema).endswith("at $.properties")


def test_properties_of_unknown_types_are_kept_and_malformed_ones_are_errors() -> None:
    seen = read({"properties": {"a": {"type": "colour"}}}, v1.ElicitationSchema)
    assert seen.properties == {"a": Unknown("colour", {"type": "colour"})}
    where = refused(
        {"properties": {"a": {"type": "string", "maxLength": -1}}}, v1.ElicitationSchema
    )
    assert where.endswith("at $.properties.a.maxLength")


def test_item_kind_follows_from_the_type_or_the_titles() -> None:
    titled = {"anyOf": [{"const": "a", "title": "A"}]}
    option = v1.EnumOption(const="a", title="A")
    assert read(titled, v1.MultiSelectItems) == v1.TitledMultiSelectItems(any_of=[option])
    assert read({"type": "string", "enum": ["a"]}, v1.MultiSelectItems) == (
        v1.StringMultiSelectItems(enum=["a"])
    )
    assert read({"type": "number"}, v1.MultiSelectItems) == Unknown("number", {"type": "number"})
    assert "enum" in refused({"type": "string"}, v1.MultiSelectItems)


@requirement("R-ELIC-25")
def test_form_values_keep_their_types() -> None:
    content = {"a": "x", "b": 1, "c": 1.5, "d": True, "e": ["y"], "f": 2**70}
    seen = read({"action": "accept", "content": content}, v1.CreateElicitationResponse)
    assert seen == v1.ElicitationAcceptAction(content=content)
    assert [type(value) for value in seen.content.values()] == [str, int, float, bool, list, int]
    assert refused(
        {"action": "accept", "content": {"a": None}}, v1.CreateElicitationResponse
    ).endswith("at $.content.a")


# The table of methods.


def test_every_method_has_a_unique_python_name() -> None:
    assert len({method.call for method in METHODS}) == len(METHODS)
    assert len({(method.name, method.is_request) for method in METHODS}) == len(METHODS)
    assert len({method.name for method in METHODS}) == 38


@pytest.mark.parametrize(
    "gate", sorted({m.gate for m in METHODS if m.gate} | set(VARIANT_GATES.values()))
)
def test_every_gate_is_a_capability(gate: str) -> None:
    side, *path = gate.split(".")
    cls: Any = {"agent": v1.AgentCapabilities, "client": v1.ClientCapabilities}[side]
    for name in path:
        assert name in cls.__struct_fields__
        cls = _class_of_marker(cls, name)


def _class_of_marker(cls: Any, name: str) -> Any:
    """Return the class of a capability, or None if it is not a marker."""
    wire = cls.__struct_encode_fields__[cls.__struct_fields__.index(name)]
    value = getattr(convert({wire: {}}, cls), name)
    return type(value) if value else None


# Optional fields of terminals, forms and updates.


@requirement("R-TERM-14")
def test_null_command_arguments_are_empty_and_wrong_ones_are_errors() -> None:
    request = {"sessionId": "s", "command": "c"}
    seen = read(request | {"args": None, "env": None}, v1.CreateTerminalRequest)
    assert (seen.args, seen.env) == ([], [])
    for wrong in ({"env": [{"name": "A"}]}, {"cwd": 5}, {"outputByteLimit": "1"}):
        (field,) = wrong
        assert field in refused(request | wrong, v1.CreateTerminalRequest)


@requirement("R-ELIC-25")
def test_values_of_a_form_that_was_not_accepted_are_ignored() -> None:
    tp = v1.CreateElicitationResponse
    assert read({"action": "accept", "content": None}, tp) == v1.ElicitationAcceptAction()
    for action, cls in (
        ("decline", v1.ElicitationDeclineAction),
        ("cancel", v1.ElicitationCancelAction),
    ):
        assert read({"action": action, "content": {"a": {"deep": 1}}}, tp) == cls()
    assert "content" in refused({"action": "accept", "content": {"a": {"deep": 1}}}, tp)


@requirement("R-EXT-14")
@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("compaction_update", {"compactionId": "c", "status": "completed"}),
        ("subagent_update", {"sessionId": "c"}),
        ("session_message", {"messageId": "m"}),
    ],
)
def test_meta_of_a_patch_is_absent_null_or_a_value(kind: str, more: dict[str, str]) -> None:
    assert update(kind, **more).meta is UNSET
    assert update(kind, **more, _meta=None).meta is None
    assert update(kind, **more, _meta={"a": None}).meta == {"a": None}


@requirement("R-SYSP-10")
def test_system_prompt_is_strict() -> None:
    setup = {"cwd": "/", "mcpServers": []}
    for prompt in (5, {"mode": 5, "content": []}, {"mode": "append"}):
        assert "systemPrompt" in refused(setup | {"systemPrompt": prompt}, v1.NewSessionRequest)
    assert read(setup | {"systemPrompt": None}, v1.NewSessionRequest).system_prompt is None


@requirement("R-EXT-01")
def test_meta_is_an_object_with_any_keys() -> None:
    meta = {"example.com/tone": {"deep": [1, None]}, "requestId": "r", "type": "image"}
    seen = read({"type": "text", "text": "a", "_meta": meta}, v1.ContentBlock)
    assert isinstance(seen, v1.TextContent)
    assert to_builtins(seen)["_meta"] == meta
