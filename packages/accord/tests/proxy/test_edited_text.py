"""What a proxy does not change in a message that it edits keeps its text."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from accord import Proxy, ProxyTurn, v1
from accord.proxy.handlers import edited_json, edited_text
from accord.text import lenient_json
from accord.wire.base import replace
from accord.wire.codec import decoder
from proxy.conversation import SESSION, conversation
from requirement import requirement

# Numbers that Python rounds or cannot represent, odd texts and spaces.
ODD = (
    b'{ "b":1.00,"a" : [ 1e400 ,0.10000000000000000000001],'
    rb'"\u0041":"\u0041","big":12345678901234567890123}'
)


class Edits(Proxy):
    async def prompt(self, turn: ProxyTurn, forward: Any) -> Any:
        turn.prepend("first")
        return await forward()


@pytest.mark.parametrize("version", [1, 2])
@requirement("R-PROXY-20")
async def test_rest_of_an_edited_prompt_keeps_its_text(version: int) -> None:
    prompt = b'[{"x":%b,"text":"hello","type":"text"},{"type":"text","text":"b","y":%b}]' % (
        ODD,
        ODD,
    )
    params = b'{"y":%b,"prompt":%b,"sessionId":"%b"}' % (ODD, prompt, SESSION.encode())
    async with conversation(Edits().stage(), version=version) as talk:
        frame = b'{"jsonrpc":"2.0","id":"p","method":"session/prompt","params":%b}' % params
        talk.ends.client.write([frame])
        sent = (await talk.ends.agent_has(2))[1]
    first = b'{"type":"text","text":"first"},'
    assert params.replace(b'"prompt":[', b'"prompt":[' + first) in sent


@pytest.mark.parametrize("odd", [ODD, rb'{"k":"\ud800","n":1.00}'], ids=["numbers", "surrogate"])
def test_changed_member_leaves_the_others(odd: bytes) -> None:
    text = b'{"sessionId":"s","update":{"x":%b,"sessionUpdate":"agent_message_chunk",' % odd
    text += b'"content":{"y":%b,"text":"old","type":"text"}}, "z" :%b}' % (odd, odd)
    before: Any = decoder(v1.SessionNotification)(Raw(text))
    content = replace(before.update.content, text="new")
    after = replace(before, update=replace(before.update, content=content))
    changed = text.replace(b'"old"', b'"new"').replace(b', "z" :', b',"z":')
    assert bytes(edited_json(Raw(text), before, after)) == changed


def test_bytes_that_are_no_utf_8_are_not_passed_on() -> None:
    text = b'{"a":"\xff","b":1.00}'
    value = lenient_json.loads(text)
    edited = bytes(edited_text(Raw(text), value, {**value, "c": 1}))
    assert edited == '{"a":"\ufffd","b":1.0,"c":1}'.encode()


def test_lone_surrogates_in_what_is_new_are_escaped() -> None:
    text = b'{"a":1.00}'
    value = lenient_json.loads(text)
    assert bytes(edited_text(Raw(text), value, {**value, "b": "\ud800"})) == (
        rb'{"a":1.0,"b":"\ud800"}'
    )


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-1, 1) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz", max_size=1), inner),
    max_leaves=8,
)


@settings(max_examples=50)
@given(value=_JSON, data=st.data())
def test_text_has_the_edited_value(value: Any, data: st.DataObject) -> None:
    edited = _edited(value, data)
    expected = copy.deepcopy(edited)
    text = json.dumps(value, indent=1).encode()
    assert json.loads(bytes(edited_text(Raw(text), value, edited))) == expected


def _edited(value: Any, data: st.DataObject) -> Any:
    """Return a value that shares parts with another one."""
    match data.draw(st.sampled_from(["same", "new", "inside", "fewer", "more"])):
        case "same":
            return value
        case "inside" if isinstance(value, dict):
            return {key: _edited(item, data) for key, item in value.items()}
        case "inside" if isinstance(value, list):
            return [_edited(item, data) for item in value]
        case "fewer" if isinstance(value, dict):
            return dict(list(value.items())[1:])
        case "fewer" if isinstance(value, list):
            return value[1:]
        case "more" if isinstance(value, dict):
            return {"new": data.draw(_JSON), **value}
        case "more" if isinstance(value, list):
            return [data.draw(_JSON), *value]
        case _:
            return data.draw(_JSON)
