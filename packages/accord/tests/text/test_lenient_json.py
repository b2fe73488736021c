"""JSON that msgspec rejects."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from accord.text.lenient_json import member_texts

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=4), _json, max_size=4), st.sampled_from([None, 2]))
def test_members_are_the_texts_of_the_values(value: dict[str, object], indent: int | None) -> None:
    text = json.dumps(value, indent=indent, separators=(" ,", " : ")).encode()
    members = member_texts(b"\xef\xbb\xbf " + text + b"\n")
    assert {key: json.loads(member) for key, member in members.items()} == value
    assert all(member in text and member == member.strip() for member in members.values())


def test_escapes_stay_and_invalid_utf8_has_no_members() -> None:
    odd = rb' "\ud800\u0041" '
    assert member_texts(b'{"a":' + odd + b',"a" : 1.0}') == {"a": b"1.0"}
    assert member_texts(b'{"b":' + odd + b"}") == {"b": odd.strip()}
    assert member_texts(b'{"b":"\xff"}') == {}
