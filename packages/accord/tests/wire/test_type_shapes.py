"""Rules about the shapes of types, checked on the types themselves."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec import Struct

from accord import v1, v2
from accord.errors import DecodeError
from accord.wire.codec import convert, to_builtins
from least import least
from requirement import requirement

VERSION = pytest.mark.parametrize("version", [v1, v2], ids=["v1", "v2"])
CAMEL = re.compile(r"[a-z]+([A-Z][a-z0-9]*)*")
SNAKE = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")
OTHERWISE = {"searchAndReplace"}  # as in the schema
CONTENT = {
    "TextContent": "text",
    "ImageContent": "image",
    "AudioContent": "audio",
    "ResourceLink": "resource_link",
    "EmbeddedResource": "resource",
}


def types(version: Any) -> list[type[Struct]]:
    found = [getattr(version, name) for name in version.__all__]
    return [one for one in found if isinstance(one, type) and issubclass(one, Struct)]


@VERSION
@requirement("R-GEN-07")
def test_keys_are_in_camel_case_and_tags_in_snake_case(version: Any) -> None:
    assert len(types(version)) > 100
    for one in types(version):
        keys = set(one.__struct_encode_fields__) - {"_meta"}
        assert all(CAMEL.fullmatch(key) for key in keys), one
        tag = one.__struct_config__.tag
        assert tag is None or SNAKE.fullmatch(str(tag)) or tag in OTHERWISE, one


@VERSION
@requirement("R-GEN-12")
def test_unset_key_is_not_encoded(version: Any) -> None:
    entry = version.PlanEntry(content="c", priority="low", status="pending")
    value = {**to_builtins(entry), "color": "red"}
    assert "color" not in to_builtins(convert(value, version.PlanEntry))


@VERSION
@requirement("R-CONT-01")
@pytest.mark.parametrize("name", CONTENT)
def test_content_blocks_have_the_tags_of_mcp(version: Any, name: str) -> None:
    block = least(getattr(version, name))
    assert to_builtins(block)["type"] == CONTENT[name]
    assert convert(to_builtins(block), version.ContentBlock) == block


@requirement("R-MSG-05")
def test_prompt_has_no_message_id_and_only_the_result_of_v2_has_one() -> None:
    for one in (v1.PromptRequest, v1.PromptResponse, v2.PromptRequest):
        assert "message_id" not in one.__struct_fields__
    assert "message_id" in v2.PromptResponse.__struct_fields__
    with pytest.raises(DecodeError):
        convert({}, v2.PromptResponse)


@requirement("R-PERM-11")
@pytest.mark.parametrize("key", ["command", "cwd"])
def test_command_permission_has_the_command_and_its_directory(key: str) -> None:
    value = to_builtins(v2.CommandPermissionSubject(command="ls", cwd="/project"))
    assert value["type"] == "command"
    del value[key]
    with pytest.raises(DecodeError):
        convert(value, v2.CommandPermissionSubject)


@VERSION
@requirement("R-USAGE-03")
def test_cost_is_optional_and_has_amount_and_currency(version: Any) -> None:
    usage = version.UsageUpdate(used=1, size=2)
    assert not to_builtins(usage).get("cost")
    for value in ({"amount": 1.0}, {"currency": "USD"}):
        with pytest.raises(DecodeError):
            convert(value, version.Cost)
    assert convert({"amount": 1.0, "currency": "USD"}, version.Cost).amount == 1.0
