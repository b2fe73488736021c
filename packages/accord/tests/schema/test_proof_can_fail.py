"""Each change of the schema is detected by the proof."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from schema import official, proof
from schema.model_of_schema import SchemaModel

Defs = dict[str, Any]
Change = Callable[[Defs], None]


def drop_field(defs: Defs) -> None:
    del defs["NewSessionRequest"]["properties"]["cwd"]
    defs["NewSessionRequest"]["required"].remove("cwd")


def add_field(defs: Defs) -> None:
    defs["NewSessionRequest"]["properties"]["colour"] = {"type": "string"}


def require(defs: Defs) -> None:
    defs["NewSessionRequest"]["required"].append("additionalDirectories")


def do_not_require(defs: Defs) -> None:
    defs["NewSessionRequest"]["required"].remove("cwd")


def change_type(defs: Defs) -> None:
    defs["EnvVariable"]["properties"]["value"]["type"] = "integer"


def refuse_null(defs: Defs) -> None:
    defs["Annotations"]["properties"]["priority"]["type"] = "number"


def accept_null(defs: Defs) -> None:
    defs["EnvVariable"]["properties"]["value"]["type"] = ["string", "null"]


def raise_minimum(defs: Defs) -> None:
    defs["Usage"]["properties"]["totalTokens"]["minimum"] = 1


def lower_maximum(defs: Defs) -> None:
    defs["ProtocolVersion"]["maximum"] = 9


def narrow_format(defs: Defs) -> None:
    defs["ToolCallLocation"]["properties"]["line"]["format"] = "uint16"


def demand_items(defs: Defs) -> None:
    defs["NewSessionRequest"]["properties"]["mcpServers"]["minItems"] = 1


def demand_length(defs: Defs) -> None:
    del defs["Notice"]["properties"]["title"]["minLength"]


def add_enum_value(defs: Defs) -> None:
    defs["ToolKind"][_union(defs["ToolKind"])].insert(0, {"type": "string", "const": "paint"})


def drop_enum_value(defs: Defs) -> None:
    del defs["PermissionOptionKind"][_union(defs["PermissionOptionKind"])][0]


def open_or_close_enum(defs: Defs) -> None:
    values = defs["PlanEntryStatus"][_union(defs["PlanEntryStatus"])]
    if "const" in values[-1]:
        values.append({"type": "string"})
    else:
        values.pop()


def drop_member(defs: Defs) -> None:
    del defs["ContentBlock"][_union(defs["ContentBlock"])][0]


def add_member(defs: Defs) -> None:
    node = copy.deepcopy(defs["ContentBlock"][_union(defs["ContentBlock"])][0])
    node["properties"]["type"]["const"] = "smell"
    defs["ContentBlock"][_union(defs["ContentBlock"])].append(node)


def rename_tag(defs: Defs) -> None:
    defs["ContentBlock"][_union(defs["ContentBlock"])][0]["properties"]["type"]["const"] = "words"


def swap_member(defs: Defs) -> None:
    members = defs["ContentBlock"][_union(defs["ContentBlock"])]
    members[0]["allOf"] = [{"$ref": "#/$defs/ImageContent"}]


def drop_default_on_error(defs: Defs) -> None:
    del defs["TextContent"]["properties"]["annotations"]["x-deserialize-default-on-error"]


def add_default_on_error(defs: Defs) -> None:
    defs["TextContent"]["properties"]["text"]["x-deserialize-default-on-error"] = True


def drop_skip(defs: Defs) -> None:
    del defs["Annotations"]["properties"]["audience"]["x-deserialize-skip-invalid-items"]


def drop_default_on_null(defs: Defs) -> None:
    del defs["NewSessionRequest"]["properties"]["mcpServers"]["x-deserialize-default-on-null"]


def drop_meta(defs: Defs) -> None:
    del defs["TextContent"]["properties"]["_meta"]


def add_definition(defs: Defs) -> None:
    defs["Weather"] = {"type": "object", "properties": {}}


def rename_method(defs: Defs) -> None:
    for name in ("NewSessionRequest", "NewSessionResponse"):
        defs[name]["x-method"] = "session/create"


def turn_direction(defs: Defs) -> None:
    for name in ("NewSessionRequest", "NewSessionResponse"):
        defs[name]["x-side"] = "client"


def swap_result(defs: Defs) -> None:
    first, second = defs["NewSessionResponse"], defs["CloseSessionResponse"]
    first["x-method"], second["x-method"] = second["x-method"], first["x-method"]


CHANGES: list[tuple[Change, str]] = [
    (drop_field, "NewSessionRequest.cwd field"),
    (add_field, "NewSessionRequest.colour field"),
    (require, "NewSessionRequest.additionalDirectories required"),
    (do_not_require, "NewSessionRequest.cwd required"),
    (change_type, "EnvVariable.value alternative Integer"),
    (refuse_null, "Annotations.priority alternative Null"),
    (accept_null, "EnvVariable.value alternative Null"),
    (raise_minimum, "Usage.totalTokens low"),
    (lower_maximum, "InitializeRequest.protocolVersion high"),
    (narrow_format, "ToolCallLocation.line high"),
    (demand_items, "NewSessionRequest.mcpServers minItems"),
    (demand_length, "Notice[notice].title min_length"),
    (add_enum_value, "ToolKind values"),
    (drop_enum_value, "PermissionOption.kind values"),
    (open_or_close_enum, "PlanEntry.status open"),
    (drop_member, "PromptRequest.prompt[] alternative type=text"),
    (add_member, "PromptRequest.prompt[] alternative type=smell"),
    (rename_tag, "PromptRequest.prompt[] alternative type=words"),
    (swap_member, "ImageContent[text].text field"),
    (drop_default_on_error, "TextContent[text].annotations default-on-error"),
    (add_default_on_error, "TextContent[text].text default-on-error"),
    (drop_skip, "Annotations.audience skip-invalid-items"),
    (drop_default_on_null, "NewSessionRequest.mcpServers default-on-null"),
    (drop_meta, "TextContent[text]._meta field"),
    (add_definition, "Weather definition"),
    (rename_method, "session/create request"),
    (turn_direction, "session/new direction"),
    (swap_result, "NewSessionResponse.sessionId field"),
]


@cache
def found_without_change(version: str) -> set[str]:
    return set(proof.prove(version, official.model(version, unstable=True), unstable=True))


@pytest.mark.slow  # compares all types for each change
@pytest.mark.parametrize("version", official.VERSIONS)
@pytest.mark.parametrize(("change", "finding"), CHANGES, ids=[c.__name__ for c, _ in CHANGES])
def test_change_is_detected(version: str, change: Change, finding: str) -> None:
    official.require()
    assert finding not in found_without_change(version)
    schema = copy.deepcopy(official.load(version, unstable=True))
    change(schema["$defs"])
    assert finding in proof.prove(version, SchemaModel(schema), unstable=True)


def test_schema_with_an_unsupported_keyword_is_rejected() -> None:
    with pytest.raises(ValueError, match="maxItems"):
        SchemaModel({"$defs": {"A": {"type": "array", "maxItems": 3}}}).shape("A")


@pytest.mark.parametrize("version", official.VERSIONS)
def test_field_that_is_unstable_only_in_the_schema_is_found(version: str) -> None:
    official.require()
    schema = copy.deepcopy(official.load(version, unstable=False))
    del schema["$defs"]["ToolCallLocation"]["properties"]["line"]
    found = proof.prove(version, SchemaModel(schema), unstable=False)
    assert "ToolCallLocation.line field" in found


@pytest.mark.parametrize("version", official.VERSIONS)
def test_unstable_schema_differs_from_the_stable_one(version: str) -> None:
    official.require()
    schema = official.model(version, unstable=True)
    found = proof.prove(version, schema, unstable=False)
    assert "AgentCapabilities.providers field" in found
    assert "session/fork request" in found
    assert "NewSessionRequest.systemPrompt field" in found


def _union(node: dict[str, Any]) -> str:
    return "oneOf" if "oneOf" in node else "anyOf"
