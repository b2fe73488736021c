"""Recordings have no secret, wherever its place says what it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord import v1, v2
from accord_trace.line_builder import Hop, LineBuilder
from accord_trace.recording import Recording
from accord_trace.records import decode_record
from accord_trace.redaction import with_possible_secrets
from requirement import requirement
from text.test_secret_places import (
    OTHER_PLACES,
    PAIRS_AND_PARAMETERS,
    PARTS_OF_KEYS,
    SECRET,
    place,
    tokens,
)

METHODS = [(types, method) for types in (v1, v2) for method in types.METHODS]


def frames_of(method: Any, value: Any) -> list[bytes]:
    call = {"jsonrpc": "2.0", "method": method.name, "params": value}
    answers = ({"result": value}, {"error": {"code": -1, "message": "m", "data": value}})
    messages = [{**call, "id": 1}, call, *({"jsonrpc": "2.0", "id": 1, **each} for each in answers)]
    return [json.dumps(message).encode() for message in messages]


@requirement("R-TRACE-05")
@given(
    st.sampled_from(METHODS), place, st.lists(st.sampled_from(("_meta", "a", "update")), max_size=4)
)
def test_messages_of_both_versions_have_no_secret(
    row: tuple[Any, Any], found: dict[str, Any], path: list[str]
) -> None:
    value: Any = {"usage": {"totalTokens": 1200}, "text": "the session token limit", **found}
    for key in path:
        value = {key: [value]}
    for frame in frames_of(row[1], value):
        assert with_possible_secrets([b"{}", frame]) == {1}
        line = LineBuilder(Hop(), redact=True).line(0.0, "to_agent", frame)
        record = decode_record(line)
        assert record is not None
        assert record.redacted
        assert SECRET not in line.decode()
        if row[1].name not in ("authenticate", "auth/login"):
            assert b"1200" in record.frame
            assert b"the session token limit" in record.frame


@requirement("R-TRACE-05")
@given(
    st.sampled_from(METHODS),
    tokens,
    st.sampled_from(("{}", "with {} and", "https://x.test/{}/a", "k={}", "({})", "a\n{}", "'{}'")),
    st.sampled_from(("title", "_meta", "id", "rawInput")),
)
def test_well_known_keys_are_found_in_each_string(
    row: tuple[Any, Any], token: str, around: str, field: str
) -> None:
    value: Any = {field: around.format(token)}
    for found in (value, {"a": [value]}, {"args": list(value.values())}, {around.format(token): 1}):
        for frame in frames_of(row[1], found):
            assert with_possible_secrets([b"{}", frame]) == {1}
            line = LineBuilder(Hop(), redact=True).line(0.0, "to_agent", frame)
            assert token[-16:] not in line.decode()


def test_line_that_is_not_a_message_has_no_secret() -> None:
    frame = f"connecting to https://a:{SECRET}@x.test with api_key={SECRET}".encode()
    assert SECRET.encode() not in LineBuilder(Hop(), redact=True).line(0.0, "to_client", frame)


def test_recording_without_secrets_in_each_frame(tmp_path: Any) -> None:
    path = tmp_path / "r.acp.jsonl"
    with Recording(path, argv=["a", "--token", SECRET]) as recording:
        hop = recording.hop()
        for number in range(50):
            params = {
                "n": number,
                "text": "x" * 99,
                **({"url": f"x://{SECRET}@h"} if number % 7 == 3 else {}),
            }
            frame = {"jsonrpc": "2.0", "method": "_x", "params": params}
            hop.frames("to_agent", [json.dumps(frame, separators=(",", ":")).encode()] * 2)
    text = path.read_text()
    assert SECRET not in text
    assert text.count('"redacted":true,"') == 2 * 7 or text.count("%5Bredacted%5D") == 14


def test_frames_that_may_have_secrets_are_found() -> None:
    for value in (*PAIRS_AND_PARAMETERS, *OTHER_PLACES):
        assert with_possible_secrets([b"{}", json.dumps(value).encode()]) == {1}, value


@pytest.mark.timeout(20)
def test_frames_with_parts_of_keys_take_linear_time() -> None:
    for part in PARTS_OF_KEYS:
        with_possible_secrets([json.dumps({"title": part * (400_000 // len(part))}).encode()])
