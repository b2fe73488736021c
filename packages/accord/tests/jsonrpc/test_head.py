"""The head of a frame that is too large: what can be read of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from accord.jsonrpc.message import Head, read_head

TEXTS = [
    (b'{"jsonrpc":"2.0","id":7,"method":"it","params":{"x":"xxx', Head("request", 7)),
    (b' { "id" : "a" , "jsonrpc" : "2.0" , "result" : [1, 2', Head("response", "a")),
    (b'{"id":7,"error":{"code":', Head("response", 7)),
    (b'{"method":"it","params":{"id":3},"id":7,"x":"', Head("request", 7)),
    (b'{"method":"it","params":{"id":3', Head("request")),
    (b'{"params":{"id":3', Head("request")),
    (b'{"id":7,"_meta":{', Head("unknown", 7)),
    (b'{"method":"it","id":12', Head("request")),
    (b'{"method":"it","id":12 ', Head("request")),
    (b'{"method":"it","id":12.5,"x":', Head("request")),
    (b'{"method":"it","id":null,"x":', Head("request")),
    (b'{"method":"it","id":"a', Head("request")),
    (b'{"id":7,"method":"\xff\xfe', Head("request", 7)),
    (b'{"id":7,"params":' + b"[" * 4000, Head("request", 7)),
    (b"[{", Head("unknown")),
    (b'{5:"', Head("unknown")),
    (b'{"a" "b"', Head("unknown")),
    (b"", Head("unknown")),
]


@pytest.mark.parametrize(("text", "head"), TEXTS, ids=[str(n) for n in range(len(TEXTS))])
def test_head(text: bytes, head: Head) -> None:
    assert read_head(text) == head


@given(st.binary(max_size=50))
def test_any_bytes_have_a_head(text: bytes) -> None:
    assert read_head(text).kind in ("request", "response", "unknown")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.lists(v), max_leaves=5
)


@given(st.integers() | st.text(), JSON, st.data())
def test_head_agrees_with_the_complete_frame(
    request_id: int | str, params: object, data: st.DataObject
) -> None:
    text = json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "m", "params": params})
    head = read_head(text.encode()[: data.draw(st.integers(0, len(text)))])
    assert head.id in (UNSET, request_id)
    assert head.kind in ("unknown", "request")
