"""Numbers and keys in unusual but valid JSON: no integer, key or digit is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from accord import v1, v2
from accord.errors import DecodeError
from accord.schema import wire_types
from accord.wire.base import KeepsMore, Unknown, replace
from accord.wire.codec import convert, decode, encode, to_builtins
from accord.wire.describe import Integer, Object, describe
from requirement import requirement
from schema.instances import minimal

OBJECTS = [
    (f"{version}.{name}", tp, kind)
    for version in ("v1", "v2")
    for name, tp in wire_types(version).items()
    for kind in describe(tp)
    if isinstance(kind, Object)
]
INTEGERS = [
    (name, tp, kind, key)
    for name, tp, kind in OBJECTS
    for key, field in kind.fields.items()
    if any(isinstance(alternative, Integer) for alternative in field.shape)
]


@requirement("R-FS-09")
@pytest.mark.parametrize(
    ("tp", "kind", "key"),
    [pytest.param(tp, kind, key, id=f"{name}.{key}") for name, tp, kind, key in INTEGERS],
)
def test_integer_written_with_a_point_is_an_integer(tp: Any, kind: Object, key: str) -> None:
    whole = minimal(kind) | {key: 3}
    read = decode(json.dumps(whole).encode(), tp)
    for text in ("3.0", "3e0", "0.3e1"):
        written = json.dumps(whole | {key: "NUMBER"}).replace('"NUMBER"', text)
        found = decode(written.encode(), tp)
        assert found == read
        if not isinstance(found, Unknown):  # kept unchanged
            assert encode(found) == encode(read)  # 3.0 is equal to 3, but not an integer
    assert convert(whole | {key: 3.0}, tp) == read


def test_types_with_integers_are_found() -> None:
    names = {f"{name}.{key}" for name, _, _, key in INTEGERS}
    assert {"v1.TerminalExitStatus.exitCode", "v1.ReadTextFileRequest.line"} <= names
    assert len(names) > 40


@pytest.mark.parametrize("text", ["7.5", "1e400", "-1e400", "1e30", "NaN"])
def test_number_that_is_not_an_integer_is_rejected(text: str) -> None:
    with pytest.raises(DecodeError):
        decode(f'{{"sessionId":"s","path":"/a","line":{text}}}'.encode(), v1.ReadTextFileRequest)


KEEPS = [
    (name, tp, kind) for name, tp, kind in OBJECTS if kind.cls and issubclass(kind.cls, KeepsMore)
]


@requirement("R-EXT-11")
@pytest.mark.parametrize(
    ("tp", "kind"),
    [pytest.param(tp, kind, id=f"{name}-{n}") for n, (name, tp, kind) in enumerate(KEEPS)],
)
def test_extra_keys_allowed_by_the_schema_are_decoded_and_encoded(tp: Any, kind: Object) -> None:
    more = {"xKey": {"deep": [1, None]}, "more_0": True, "not a name": None, "self": "x"}
    message = minimal(kind) | more
    if "stopReason" in kind.fields:
        message["stopReason"] = "_paused"
    read = decode(json.dumps(message).encode(), tp)
    assert isinstance(read, KeepsMore)
    assert read.more == more
    assert json.loads(encode(read)) == message
    assert to_builtins(read) == message
    assert decode(json.dumps(message).encode(), tp) == read
    changed = replace(read, meta={"a": 1}) if hasattr(read, "meta") else read
    assert changed.more == more


def test_types_with_extra_keys_are_those_of_the_schema() -> None:
    names = {name for name, _, _ in KEEPS}
    assert names >= {
        "v1.IdleState",
        "v2.IdleState",
        "v2.IdleStateUpdate",
        "v1.McpError",
        "v2.McpError",
    }


def test_idle_state_with_an_unknown_reason_is_idle() -> None:
    state: Any = decode(b'{"state":"idle","stopReason":"_paused","until":"noon"}', v2.SessionState)
    match state:
        case v2.IdleState(stop_reason=reason):
            assert reason == "_paused"
        case _:
            raise AssertionError(state)


def test_number_of_extra_keys_is_limited() -> None:
    message = {"state": "idle", **{f"x{number}": number for number in range(1000)}}
    read = decode(json.dumps(message).encode(), v2.IdleState)
    assert len(read.more) == 64


@requirement("R-EXT-11")
@pytest.mark.parametrize("number", ["1e400", "-1.5e999", "1" * 5000, "1" * 400 + ".5"])
def test_number_that_is_too_large_keeps_its_text(number: str) -> None:
    call = f'{{"toolCallId":"c","title":"t","rawInput":{{"deep":[{number},1.5]}}}}'
    read = decode(call.encode(), v1.ToolCall)
    assert read.raw_input == {"deep": [number, 1.5]}
    assert json.loads(encode(read))["rawInput"] == {"deep": [number, 1.5]}


@pytest.mark.parametrize("key", ["title", "kind", "toolCallId"])
def test_number_that_is_too_large_is_not_a_string(key: str) -> None:
    call = {"toolCallId": "c", "title": "t", key: "NUMBER"}
    text = json.dumps(call).replace('"NUMBER"', "1e400").encode()
    if key == "kind":  # lenient: a value that is not a kind becomes the default
        read = decode(text, v1.ToolCall)
        assert read == decode(b'{"toolCallId":"c","title":"t"}', v1.ToolCall)
    else:
        with pytest.raises(DecodeError, match="out of range"):
            decode(text, v1.ToolCall)
