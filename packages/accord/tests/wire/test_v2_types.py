"""The types of version 2: what they decode, reject, correct and encode."""

from __future__ import annotations

import json
from typing import Any, get_type_hints

import msgspec
import pytest
from msgspec import StructMeta

from accord import v2
from accord.errors import DecodeError
from accord.v2.methods import METHODS, VARIANT_GATES
from accord.wire.base import DEFAULT_ON_ERROR, UNSET, Patch, Unknown
from accord.wire.codec import convert, decode, encode, to_builtins

PATCHES = sorted(
    {
        value
        for name in dir(v2)
        if isinstance(value := getattr(v2, name), type) and issubclass(value, Patch)
    },
    key=lambda patch: patch.__name__,
)


def read(value: Any, tp: Any) -> Any:
    """Decode a value and check that both decoders agree."""
    decoded = decode(json.dumps(value).encode(), tp)
    assert convert(value, tp) == decoded
    return decoded


def update(value: dict[str, Any]) -> Any:
    """Decode a session update inside its notification."""
    params = {"sessionId": "s", "update": value}
    return read(params, v2.UpdateSessionNotification).update


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


ORDINARY_UPDATES: list[dict[str, Any]] = [
    {"sessionUpdate": "user_message_chunk", "messageId": "m", "content": text("a")},
    {"sessionUpdate": "user_message", "messageId": "m", "content": [text("a")]},
    {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": text("a")},
    {"sessionUpdate": "agent_message", "messageId": "m", "content": None},
    {"sessionUpdate": "agent_thought_chunk", "messageId": "m", "content": text("a")},
    {"sessionUpdate": "agent_thought", "messageId": "m", "_meta": {"k": None}},
    {
        "sessionUpdate": "tool_call_content_chunk",
        "toolCallId": "t",
        "content": {"type": "terminal", "terminalId": "x"},
    },
    {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "t",
        "kind": "edit",
        "content": [{"type": "diff", "changes": [{"operation": "add", "path": "/a"}]}],
        "locations": [{"path": "/a", "line": 1}],
        "rawInput": {"a": [1]},
        "rawOutput": None,
        "capabilities": {"cancel": {}},
    },
    {
        "sessionUpdate": "terminal_update",
        "terminalId": "x",
        "exitStatus": {},
        "size": {"cols": 80, "rows": 24},
    },
    {"sessionUpdate": "terminal_output_chunk", "terminalId": "x", "data": "YQ=="},
    {
        "sessionUpdate": "plan_update",
        "plan": {
            "type": "items",
            "planId": "p",
            "entries": [{"content": "c", "priority": "high", "status": "pending"}],
        },
    },
    {"sessionUpdate": "plan_update", "plan": {"type": "markdown", "planId": "p", "content": "c"}},
    {"sessionUpdate": "plan_update", "plan": {"type": "file", "planId": "p", "uri": "file:///p"}},
    {"sessionUpdate": "plan_removed", "planId": "p"},
    {
        "sessionUpdate": "config_option_update",
        "configOptions": [
            {"type": "boolean", "configId": "c", "name": "n", "currentValue": True},
        ],
    },
    {"sessionUpdate": "session_info_update", "title": None, "updatedAt": "2026-01-01T00:00:00Z"},
    {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": None},
    {"sessionUpdate": "notice", "severity": "info", "title": "t"},
    {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "in_progress"},
    {"sessionUpdate": "compaction_summary_chunk", "compactionId": "c", "content": text("a")},
    {"sessionUpdate": "subagent_update", "sessionId": "c", "state": {"state": "running"}},
    {"sessionUpdate": "session_message", "messageId": "m", "senderSessionId": None},
    {"sessionUpdate": "session_message_chunk", "messageId": "m", "content": text("a")},
]


@pytest.mark.requirement("R-PLAN-10")
@pytest.mark.parametrize("value", ORDINARY_UPDATES, ids=lambda value: value["sessionUpdate"])
def test_ordinary_update_is_decoded_natively_and_encoded_unchanged(
    value: dict[str, Any],
) -> None:
    params = json.dumps({"sessionId": "s", "update": value}).encode()

    decoded = msgspec.json.decode(params, type=v2.UpdateSessionNotification)

    assert to_builtins(decoded.update) == value
    assert update(value) == decoded.update


# Absent, null and value are three states.


def test_patch_distinguishes_absent_null_and_value() -> None:
    changed = update(
        {"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": None, "name": "grep"}
    )

    assert (changed.kind, changed.title, changed.name) == (UNSET, None, "grep")
    assert (changed.raw_input, changed.meta) == (UNSET, UNSET)


def test_null_raw_output_is_a_value() -> None:
    changed = update({"sessionUpdate": "tool_call_update", "toolCallId": "t", "rawOutput": None})

    assert changed.raw_output is None
    assert json.loads(encode(changed)) == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "t",
        "rawOutput": None,
    }


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"title": 5}, "title"),
        ({"status": ["pending"]}, "status"),
        ({"content": "text"}, "content"),
        ({"_meta": []}, "meta"),
    ],
)
def test_malformed_patch_field_is_absent(wrong: dict[str, Any], field: str) -> None:
    changed = update({"sessionUpdate": "tool_call_update", "toolCallId": "t", **wrong})

    assert getattr(changed, field) is UNSET


@pytest.mark.requirement("R-TCAN-02", "R-GEN-11")
@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.__name__)
def test_every_malformed_field_of_a_patch_that_reads_leniently_is_absent(patch: Any) -> None:
    """The schema has one mark for all of them, and absent keeps the previous value."""
    hints = get_type_hints(patch, include_extras=True)
    lenient = [
        field
        for field in msgspec.structs.fields(patch)
        if field.default is UNSET
        and DEFAULT_ON_ERROR in getattr(hints[field.name], "__metadata__", ())
    ]
    required = {field.encode_name: "x" for field in msgspec.structs.fields(patch) if field.required}
    for field in lenient:
        for wrong in (5.5, {"unknown": []}, [{}], "\ud800"):
            try:
                value = convert({**required, field.encode_name: wrong}, patch)
            except DecodeError:
                assert field.encode_name == "_meta"
                continue
            found = getattr(value, field.name)
            assert found is UNSET or found is not None, (field.name, wrong)


@pytest.mark.requirement("R-TCAN-02")
@pytest.mark.parametrize(
    "value",
    [
        {"sessionUpdate": "tool_call_update", "toolCallId": "t", "capabilities": "all"},
        {"sessionUpdate": "terminal_update", "terminalId": "x", "capabilities": "all"},
        {"sessionUpdate": "terminal_update", "terminalId": "x", "capabilities": 5},
        {"sessionUpdate": "terminal_update", "terminalId": "x", "capabilities": [1]},
    ],
)
def test_malformed_capabilities_are_absent(value: dict[str, Any]) -> None:
    assert update(value).capabilities is UNSET


@pytest.mark.requirement("R-SUBAG-09")
def test_subagent_directories_are_strict() -> None:
    with pytest.raises(DecodeError, match="additionalDirectories"):
        update({"sessionUpdate": "subagent_update", "sessionId": "c", "additionalDirectories": [1]})


def test_empty_directories_of_a_subagent_are_encoded() -> None:
    value = v2.SubagentUpdate(session_id="c", additional_directories=[])

    assert json.loads(encode(value))["additionalDirectories"] == []


# Open unions and enums.


@pytest.mark.requirement("R-EXT-11", "R-AUTH-23", "R-AUTH-24", "R-CMD-07", "R-CONF-12", "R-TOOL-12")
@pytest.mark.parametrize(
    ("value", "tp"),
    [
        ({"sessionUpdate": "plan", "entries": []}, v2.SessionUpdate),
        ({"type": "video", "data": "x", "_meta": {"a": 1}}, v2.ContentBlock),
        ({"type": "sse", "name": "n", "url": "u"}, v2.McpServer),
        ({"type": "_skill", "name": "n", "description": "d", "x": 1}, v2.AvailableCommand),
        ({"type": "sso", "methodId": "m", "name": "n"}, v2.AuthMethod),
        ({"type": "slider", "configId": "c", "name": "n", "max": 3}, v2.SessionConfigOption),
        ({"type": "graph", "planId": "p", "nodes": []}, v2.PlanUpdateContent),
        ({"type": "number", "sessionId": "s", "configId": "c", "value": None},
         v2.SetSessionConfigOptionRequest),
        ({"mode": "voice", "message": "m", "requestId": 1}, v2.CreateElicitationRequest),
        ({"action": "later"}, v2.CreateElicitationResponse),
        ({"outcome": "postponed"}, v2.RequestPermissionOutcome),
        ({"type": "message", "messageId": "m"}, v2.ReplayFrom),
        ({"operation": "truncate", "path": "/a"}, v2.DiffChange),
        ({"type": "color"}, v2.ElicitationPropertySchema),
        ({"type": "integer", "enum": [1]}, v2.MultiSelectItems),
        ({"type": "cloud", "job": 1}, v2.BackgroundWork),
        ({"state": "dreaming", "depth": 2}, v2.SessionState),
    ],
    ids=lambda value: "" if isinstance(value, dict) else None,
)  # fmt: skip
def test_unknown_variant_is_kept_and_encoded_unchanged(value: dict[str, Any], tp: Any) -> None:
    kept = read(value, tp)

    assert isinstance(kept, Unknown)
    assert json.loads(encode(kept)) == value


@pytest.mark.requirement("R-PLAN-07")
@pytest.mark.parametrize(
    ("value", "tp"),
    [
        ({"type": "_skill", "name": "n"}, v2.AvailableCommand),
        ({"type": "sso", "name": "n"}, v2.AuthMethod),
        ({"type": "slider", "configId": "c"}, v2.SessionConfigOption),
        ({"type": "graph"}, v2.PlanUpdateContent),
        ({"type": "number", "sessionId": "s", "configId": "c"}, v2.SetSessionConfigOptionRequest),
        ({"mode": "voice", "message": "m"}, v2.CreateElicitationRequest),
        (
            {"mode": "voice", "message": "m", "sessionId": "s", "requestId": 1},
            v2.CreateElicitationRequest,
        ),
    ],
)
def test_unknown_variant_without_its_required_keys_is_an_error(
    value: dict[str, Any], tp: Any
) -> None:
    with pytest.raises(DecodeError):
        read(value, tp)


@pytest.mark.requirement("R-EXT-12")
@pytest.mark.parametrize(
    ("value", "tp"),
    [
        ({"sessionUpdate": "agent_message_chunk", "content": text("a")}, v2.SessionUpdate),
        ({"type": "text"}, v2.ContentBlock),
        ({"type": "command", "name": "n"}, v2.AvailableCommand),
        ({"type": "stdio", "name": "n"}, v2.McpServer),
        ({"state": 5}, v2.SessionState),
    ],
)
def test_known_tag_with_a_malformed_body_is_an_error(value: Any, tp: Any) -> None:
    with pytest.raises(DecodeError):
        convert(value, tp)


@pytest.mark.parametrize("tp", [v2.AvailableCommand, v2.AvailableCommandInput, v2.ReplayFrom])
@pytest.mark.parametrize("tag", [{}, {"type": None}, {"type": 5}], ids=["absent", "null", "number"])
def test_union_with_one_variant_needs_its_tag(tp: Any, tag: dict[str, Any]) -> None:
    with pytest.raises(DecodeError):
        read({"name": "n", "description": "d", "hint": "h", **tag}, tp)


@pytest.mark.requirement("R-TOOL-12")
def test_unknown_value_of_an_open_enum_is_kept() -> None:
    changed = update({"sessionUpdate": "tool_call_update", "toolCallId": "t", "kind": "_brew"})

    assert changed.kind == "_brew"


# States.


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"state": "running", "background": []}, v2.RunningStateUpdate(background=[])),
        ({"state": "idle", "stopReason": "refusal"}, v2.IdleStateUpdate(stop_reason="refusal")),
        ({"state": "idle", "stopReason": None}, v2.IdleStateUpdate()),
        ({"state": "idle", "stopReason": 7}, v2.IdleStateUpdate()),
        ({"state": "requires_action"}, v2.RequiresActionStateUpdate()),
        ({"state": "unknown"}, v2.UnknownStateUpdate()),
    ],
)
def test_state_update_is_selected_by_its_state(value: dict[str, Any], expected: Any) -> None:
    assert update({"sessionUpdate": "state_update", **value}) == expected


def test_state_update_is_encoded_with_both_tags() -> None:
    assert to_builtins(v2.IdleStateUpdate(stop_reason="_tired")) == {
        "sessionUpdate": "state_update",
        "state": "idle",
        "stopReason": "_tired",
    }


def test_unknown_state_is_kept_with_its_other_keys() -> None:
    value = {"sessionUpdate": "state_update", "state": "dreaming", "of": ["sheep"]}

    kept = update(value)

    assert kept == Unknown("dreaming", value)
    assert json.loads(encode(kept)) == value


@pytest.mark.parametrize("state", [{}, {"state": None}, {"state": 1}])
def test_state_update_without_a_state_is_an_error(state: dict[str, Any]) -> None:
    with pytest.raises(DecodeError):
        update({"sessionUpdate": "state_update", **state})


def test_stop_reason_error_has_the_error() -> None:
    state = update(
        {
            "sessionUpdate": "state_update",
            "state": "idle",
            "stopReason": "error",
            "error": {"code": -32002, "message": "gone", "data": {"sessionId": "s"}},
            "usage": {"totalTokens": 3, "inputTokens": 1, "outputTokens": 2},
        }
    )

    assert state.error.data == v2.SessionNotFoundErrorData(session_id="s")
    assert state.usage.total_tokens == 3


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            {"requested": 1, "supported": [2]},
            v2.UnsupportedProtocolVersionErrorData(requested=1, supported=[2]),
        ),
        ({"requested": 1}, {"requested": 1}),
        ([1], [1]),
        ("why", "why"),
        (None, None),
    ],
)
def test_error_data_is_any_json(data: Any, expected: Any) -> None:
    assert read({"code": -1, "message": "m", "data": data}, v2.Error).data == expected


@pytest.mark.requirement("R-BGW-06")
@pytest.mark.parametrize("background", [None, "all", [{"type": "terminal"}], [{"id": 1}]])
def test_malformed_background_is_ignored(background: Any) -> None:
    state = update({"sessionUpdate": "state_update", "state": "running", "background": background})

    assert state.background is None


@pytest.mark.requirement("R-BGW-07")
def test_unknown_background_work_counts() -> None:
    work = {"type": "cloud", "job": 1}
    state = update({"sessionUpdate": "state_update", "state": "idle", "background": [work]})

    assert state.background == [Unknown("cloud", work)]


@pytest.mark.requirement("R-STATUS-07")
def test_malformed_state_of_a_status_is_ignored() -> None:
    answer = read({"status": "open", "state": {"state": 1}}, v2.SessionStatusResponse)

    assert answer.state is None


# Lists.


@pytest.mark.parametrize(
    ("value", "field", "kept"),
    [
        (
            {
                "sessionUpdate": "available_commands_update",
                "availableCommands": [
                    {"type": "command", "name": "a", "description": "d"},
                    {"name": "b", "description": "no type"},
                ],
            },
            "available_commands",
            [v2.Command(name="a", description="d")],
        ),
        (
            {"sessionUpdate": "config_option_update", "configOptions": [1]},
            "config_options",
            [],
        ),
    ],
)
def test_malformed_items_are_skipped(value: dict[str, Any], field: str, kept: list[Any]) -> None:
    assert getattr(update(value), field) == kept


@pytest.mark.requirement("R-TOOL-20", "R-PLAN-14")
@pytest.mark.parametrize(
    ("value", "tp"),
    [
        ({"sessionUpdate": "available_commands_update", "availableCommands": {}}, v2.SessionUpdate),
        ({"sessionUpdate": "config_option_update", "configOptions": None}, v2.SessionUpdate),
        ({"type": "items", "planId": "p", "entries": "all"}, v2.PlanUpdateContent),
        ({"type": "diff", "changes": None}, v2.ToolCallContent),
        ({"configOptions": None}, v2.SetSessionConfigOptionResponse),
    ],
)
def test_value_that_is_not_a_list_is_an_error_even_if_items_are_skipped(
    value: dict[str, Any], tp: Any
) -> None:
    with pytest.raises(DecodeError):
        read(value, tp)


def test_group_without_valid_options_is_empty() -> None:
    for options in ("none", None, [], [{"value": 1}]):
        group = {"groupId": "g", "name": "n", "options": options}
        assert read(group, v2.SessionConfigSelectGroup).options == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([{"value": "v", "name": "n"}], [v2.SessionConfigSelectOption(value="v", name="n")]),
        (
            [{"groupId": "g", "name": "n", "options": []}],
            [v2.SessionConfigSelectGroup(group_id="g", name="n", options=[])],
        ),
    ],
)
def test_select_options_are_selected_by_their_items(options: Any, expected: Any) -> None:
    option = {
        "type": "select",
        "configId": "c",
        "name": "n",
        "currentValue": "v",
        "options": options,
    }

    assert read(option, v2.SessionConfigOption).options == expected


def test_null_is_decoded_as_an_empty_list_where_the_schema_allows_it() -> None:
    request = read(
        {"cwd": "/", "mcpServers": None, "additionalDirectories": None}, v2.NewSessionRequest
    )

    assert (request.mcp_servers, request.additional_directories) == ([], [])


@pytest.mark.requirement("R-MCP-12")
def test_malformed_server_fails_the_request() -> None:
    with pytest.raises(DecodeError, match=r"mcpServers\[1\]"):
        read(
            {
                "cwd": "/",
                "mcpServers": [
                    {"type": "stdio", "name": "n", "command": "/c", "args": None, "env": None},
                    {"type": "http", "name": "n"},
                ],
            },
            v2.NewSessionRequest,
        )


def test_session_with_a_malformed_directory_is_skipped_in_the_list() -> None:
    answer = read(
        {
            "sessions": [
                {"sessionId": "a", "cwd": "/", "additionalDirectories": None},
                {"sessionId": "b", "cwd": "/", "additionalDirectories": [1]},
            ],
            "nextCursor": "",
        },
        v2.ListSessionsResponse,
    )

    assert [info.session_id for info in answer.sessions] == ["a"]
    assert answer.next_cursor == ""


# Bounds also apply if another part of the message needed the converter.


@pytest.mark.requirement("R-PROMPT-25", "R-NOTICE-02")
@pytest.mark.parametrize(
    ("value", "tp"),
    [
        ({"sessionId": "s", "prompt": []}, v2.PromptRequest),
        ({"sessionId": "s", "title": "t", "options": []}, v2.RequestPermissionRequest),
        ({"sessionUpdate": "notice", "severity": "info", "title": ""}, v2.SessionUpdate),
        ({"anyOf": []}, v2.MultiSelectItems),
        ({"type": "string", "enum": []}, v2.ElicitationPropertySchema),
        ({"cols": 0, "rows": 1}, v2.TerminalSize),
        ({"cols": 1, "rows": 65536}, v2.TerminalSize),
        ({"protocolVersion": 65536, "info": {"name": "n", "version": "1"}}, v2.InitializeRequest),
        ({"requestId": None}, v2.CancelRequestNotification),
    ],
)
def test_bounds_are_checked(value: dict[str, Any], tp: Any) -> None:
    with pytest.raises(DecodeError):
        read(value, tp)


@pytest.mark.requirement("R-GEN-02")
def test_line_zero_is_decoded_as_absent() -> None:
    assert read({"path": "/a", "line": 0}, v2.ToolCallLocation).line is None


def test_priority_out_of_range_is_decoded_as_absent() -> None:
    assert read({"priority": 1.5}, v2.Annotations).priority is None


def test_malformed_capabilities_support_nothing() -> None:
    hello = {"protocolVersion": 2, "info": {"name": "n", "version": "1"}, "capabilities": None}

    assert read(hello, v2.InitializeRequest).capabilities == v2.ClientCapabilities()


# Elicitation.


@pytest.mark.parametrize(
    "scope",
    [{}, {"sessionId": "s", "requestId": 1}, {"sessionId": None, "requestId": 1}],
    ids=["none", "both", "null counts as present"],
)
def test_elicitation_has_exactly_one_scope(scope: dict[str, Any]) -> None:
    request = {"mode": "url", "message": "m", "elicitationId": "e", "url": "https://a", **scope}

    with pytest.raises(DecodeError):
        read(request, v2.CreateElicitationRequest)


def test_form_is_decoded_completely() -> None:
    fields = {
        "color": {"type": "array", "items": {"anyOf": [{"const": "r", "title": "Red"}]}},
        "size": {"type": "array", "items": {"type": "string", "enum": ["s", "m"]}},
        "when": {"type": "moon"},
    }
    request = read(
        {
            "mode": "form",
            "message": "m",
            "requestId": "r",
            "requestedSchema": {"type": "object", "properties": fields},
        },
        v2.CreateElicitationRequest,
    )

    properties = request.requested_schema.properties
    assert properties["color"].items.any_of == [v2.EnumOption(const="r", title="Red")]
    assert properties["size"].items == v2.StringMultiSelectItems(enum=["s", "m"])
    assert properties["when"] == Unknown("moon", {"type": "moon"})


@pytest.mark.requirement("R-ELIC-08")
def test_form_type_is_strict() -> None:
    with pytest.raises(DecodeError):
        read({"type": "array", "properties": {}}, v2.ElicitationSchema)


# MCP and proxies.


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"result": None}, v2.MessageMcpResult(result=None)),
        ({"result": 1, "error": {}}, v2.MessageMcpResult(result=1)),
        (
            {"error": {"code": 1, "message": "m", "data": None}},
            v2.MessageMcpError(error=v2.McpError(code=1, message="m", data=None)),
        ),
    ],
)
def test_mcp_response_is_selected_by_its_key(value: dict[str, Any], expected: Any) -> None:
    assert read(value, v2.MessageMcpResponse) == expected


@pytest.mark.requirement("R-PROXY-15")
@pytest.mark.parametrize("params", ["text", 1, True])
def test_wrapped_params_are_an_object_or_an_array(params: Any) -> None:
    with pytest.raises(DecodeError):
        read({"method": "m", "params": params}, v2.ProxySuccessorRequest)


# The table of methods.


def test_v2_has_31_methods() -> None:
    assert len({method.name for method in METHODS}) == 31
    assert sum(not method.unstable for method in METHODS) == 18


def test_python_names_are_unique() -> None:
    assert len({method.call for method in METHODS}) == len(METHODS)


def test_gates_are_capabilities() -> None:
    roots = {"agent": v2.AgentCapabilities, "client": v2.ClientCapabilities}
    for gate in {method.gate for method in METHODS if method.gate} | set(VARIANT_GATES.values()):
        side, *steps = gate.split(".")
        here: Any = roots[side]
        for step in steps:
            (info,) = [f for f in msgspec.structs.fields(here) if f.name == step]
            union: Any = msgspec.inspect.type_info(info.type)
            (here,) = [
                member.cls
                for member in union.types
                if isinstance(member, msgspec.inspect.StructType)
            ]


def test_unstable_methods_have_unstable_types() -> None:
    for method in METHODS:
        for tp in (method.params, method.result):
            # `initialize` of a proxy has the stable types.
            if isinstance(tp, StructMeta) and method.name != "proxy/initialize":
                assert getattr(tp, "__unstable__", False) == method.unstable, method.name


# Values of a future version or an extension.


@pytest.mark.requirement("R-AUTH-23")
def test_auth_method_of_an_unknown_type_is_kept_and_encoded_unchanged() -> None:
    value = {"type": "sso", "methodId": "m", "name": "n", "url": "https://a.example"}
    kept = read(value, v2.AuthMethod)
    assert isinstance(kept, Unknown)
    assert kept.tag == "sso"
    assert json.loads(encode(kept)) == value


@pytest.mark.requirement("R-CMD-07")
def test_command_of_an_unknown_type_is_kept_and_encoded_unchanged() -> None:
    value = {"type": "_skill", "name": "n", "description": "d", "x": 1}
    kept = read(value, v2.AvailableCommand)
    assert isinstance(kept, Unknown)
    assert (kept.raw["name"], kept.raw["description"]) == ("n", "d")
    assert json.loads(encode(kept)) == value


@pytest.mark.requirement("R-PROV-11")
@pytest.mark.parametrize("api_type", ["_mine", "later"])
def test_provider_of_an_unknown_type_is_kept_and_encoded_unchanged(api_type: str) -> None:
    value = {"apiType": api_type, "baseUrl": "https://a.example"}
    kept = read(value, v2.ProviderCurrentConfig)
    assert kept.api_type == api_type
    assert json.loads(encode(kept)) == value


@pytest.mark.requirement(
    "R-TOOL-12", "R-PLAN-12", "R-PERM-15", "R-NOTICE-05", "R-COMP-07", "R-PROV-11", "R-ELIC-20"
)
@pytest.mark.parametrize("word", ["_own", "later"])
@pytest.mark.parametrize(
    ("tp", "field", "more"),
    [
        (v2.ToolCallUpdate, "status", {"toolCallId": "t"}),
        (v2.PlanEntry, "priority", {"content": "c", "status": "pending"}),
        (v2.PlanEntry, "status", {"content": "c", "priority": "low"}),
        (v2.PermissionOption, "kind", {"optionId": "o", "name": "n"}),
        (v2.Notice, "severity", {"title": "t"}),
        (v2.CompactionUpdate, "status", {"compactionId": "c"}),
        (v2.ProviderCurrentConfig, "apiType", {"baseUrl": "https://a.example"}),
        (v2.StringPropertySchema, "format", {}),
    ],
)  # fmt: skip
def test_unknown_enum_value_is_kept_and_encoded_unchanged(
    tp: Any, field: str, more: dict[str, Any], word: str
) -> None:
    tag = {tp.__struct_config__.tag_field: tp.__struct_config__.tag}
    value = {field: word, **more, **(tag if tp.__struct_config__.tag_field else {})}

    assert json.loads(encode(read(value, tp))) == value


@pytest.mark.requirement("R-PERM-13")
def test_unknown_subject_of_a_permission_request_is_kept() -> None:
    subject = {"type": "_payment", "amount": 3}
    option = {"optionId": "o", "name": "n", "kind": "allow_once"}
    value = {"sessionId": "s", "title": "t", "subject": subject, "options": [option]}

    request = read(value, v2.RequestPermissionRequest)

    assert request.subject == Unknown("_payment", subject)
    assert json.loads(encode(request)) == value


@pytest.mark.requirement("R-DTERM-14", "R-DTERM-15")
def test_exit_code_can_be_negative_and_a_malformed_size_is_ignored() -> None:
    terminal = {"sessionUpdate": "terminal_update", "terminalId": "x"}

    seen = update({**terminal, "exitStatus": {"exitCode": -(2**63)}, "size": {"cols": 0}})

    assert seen.exit_status.exit_code == -(2**63)
    assert seen.size is UNSET


@pytest.mark.requirement("R-LIST-17")
def test_cursor_that_is_not_a_string_is_an_error() -> None:
    with pytest.raises(DecodeError, match="nextCursor"):
        read({"sessions": [], "nextCursor": 5}, v2.ListSessionsResponse)


@pytest.mark.requirement("R-SESS-30")
@pytest.mark.parametrize(
    "tp", [v2.NewSessionResponse, v2.ResumeSessionResponse, v2.ForkSessionResponse]
)
def test_null_lists_of_setup_responses_are_decoded_as_absent(tp: Any) -> None:
    ids = {} if tp is v2.ResumeSessionResponse else {"sessionId": "s"}

    answer = read({**ids, "configOptions": None, "availableCommands": None}, tp)

    assert answer == read(ids, tp)
    assert json.loads(encode(answer)) == ids


@pytest.mark.requirement("R-AUTH-03", "R-AUTH-29")
def test_malformed_auth_method_is_skipped_and_null_arguments_are_empty() -> None:
    method = {"methodId": "m", "name": "n"}
    good = {**method, "type": "terminal", "args": None, "env": None}
    hello = {
        "protocolVersion": 2,
        "info": {"name": "n", "version": "1"},
        "authMethods": [
            method,
            {**method, "type": None},
            {**method, "type": "terminal", "args": "--login"},
            {**method, "type": "terminal", "env": [{"name": "A"}]},
            good,
        ],
    }

    seen = read(hello, v2.InitializeResponse)

    assert seen.auth_methods == [v2.AuthMethodTerminal(method_id="m", name="n")]


@pytest.mark.requirement("R-CONT-06")
def test_size_is_a_number_of_bytes_and_a_time_is_any_text() -> None:
    link = {"type": "resource_link", "uri": "file:///a", "name": "a"}

    assert read({**link, "size": 2**64 - 1}, v2.ContentBlock).size == 2**64 - 1
    assert read({**link, "size": -1}, v2.ContentBlock).size is None
    noted = read({**link, "annotations": {"lastModified": "yesterday"}}, v2.ContentBlock)
    assert noted.annotations.last_modified == "yesterday"


@pytest.mark.requirement("R-SYSP-10")
@pytest.mark.parametrize("prompt", [5, {"mode": 5, "content": []}, {"mode": "append"}])
def test_system_prompt_is_strict(prompt: Any) -> None:
    with pytest.raises(DecodeError, match="systemPrompt"):
        read({"cwd": "/", "systemPrompt": prompt}, v2.NewSessionRequest)
    assert read({"cwd": "/", "systemPrompt": None}, v2.NewSessionRequest).system_prompt is None


@pytest.mark.requirement("R-EXT-01")
def test_meta_is_an_object_with_any_keys() -> None:
    meta = {"example.com/tone": {"deep": [1, None]}, "requestId": "r", "type": "image"}

    seen = read({"type": "text", "text": "a", "_meta": meta}, v2.ContentBlock)

    assert isinstance(seen, v2.TextContent)
    assert to_builtins(seen)["_meta"] == meta


@pytest.mark.requirement("R-EXT-10")
def test_unknown_value_without_an_underscore_is_kept_too() -> None:
    for state in ("later", "_own"):
        value = {"sessionUpdate": "state_update", "state": state}
        assert update(value) == Unknown(state, value)
